package traffic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"parley/internal/exactmath"
)

// LengthMax bounds every length in tokens.
const LengthMax = 1 << 22

// A Length is a distribution of token counts. With a CV of 0 it is uniform
// from Least to Most, and fixed if both are equal. Otherwise it is lognormal
// with that Mean and coefficient of variation, and values beyond Least and
// Most are moved to them, which moves the mean a little, too.
type Length struct {
	Least, Most int
	Mean, CV    float64
}

// Fixed returns a length that is always n.
func Fixed(n int) Length { return Length{Least: n, Most: n} }

// LogNormal returns a length with a long tail: of the given mean and
// coefficient of variation, at least 1 and at most most.
func LogNormal(mean, cv float64, most int) Length {
	return Length{Least: 1, Most: most, Mean: mean, CV: cv}
}

const lengthForms = "expected tokens such as 128, a range such as 64-512, or lognormal:MEAN:CV[:MAX]"

// ParseLength reads a length as a person writes it: 128, or 64-512 for a
// uniform one, or lognormal:300:1.2 with mean and coefficient of variation,
// to which :2000 adds a maximum.
func ParseLength(text string) (Length, error) {
	l, err := parseLength(text)
	if err != nil {
		return Length{}, fmt.Errorf("%q is not a length: %s", text, lengthForms)
	}
	return l, l.Validate()
}

func parseLength(text string) (Length, error) {
	if rest, ok := strings.CutPrefix(text, "lognormal:"); ok {
		return parseLogNormal(strings.Split(rest, ":"))
	}
	low, high, isRange := strings.Cut(text, "-")
	least, err := strconv.Atoi(low)
	if err != nil || !isRange {
		return Fixed(least), err
	}
	most, err := strconv.Atoi(high)
	return Length{Least: least, Most: most}, err
}

func parseLogNormal(fields []string) (Length, error) {
	if len(fields) < 2 || len(fields) > 3 {
		return Length{}, strconv.ErrSyntax
	}
	mean, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return Length{}, err
	}
	cv, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || cv == 0 {
		return Length{}, strconv.ErrSyntax
	}
	most := LengthMax
	if len(fields) == 3 {
		most, err = strconv.Atoi(fields[2])
	}
	return LogNormal(mean, cv, most), err
}

// Validate reports what is wrong with the numbers.
func (l Length) Validate() error {
	switch {
	case l.Least < 1 || l.Most > LengthMax || l.Least > l.Most:
		return fmt.Errorf("a length from %d to %d tokens: expected at least 1, at most %d, the smaller first", l.Least,
			l.Most, LengthMax)
	case !(l.CV >= 0 && l.CV <= gapCVMax):
		return fmt.Errorf("a length with a coefficient of variation of %g: expected 0 to %d", l.CV, gapCVMax)
	case l.CV > 0 && !(l.Mean >= 1 && l.Mean <= LengthMax):
		return fmt.Errorf("a mean length of %g tokens: expected 1 to %d", l.Mean, LengthMax)
	}
	return nil
}

// Draw returns one length. The distribution must be valid.
func (l Length) Draw(rng *rand.Rand) int {
	if l.CV == 0 {
		return l.Least + rng.IntN(l.Most-l.Least+1)
	}
	variance := exactmath.Log(1 + float64(l.CV*l.CV))
	x := exactmath.Exp(exactmath.Log(l.Mean) - float64(variance/2) + float64(math.Sqrt(variance)*exactmath.Normal(rng)))
	return int(math.Round(min(max(x, float64(l.Least)), float64(l.Most))))
}

// Average returns the mean of the lengths, but for what the bounds cut off.
func (l Length) Average() float64 {
	if l.CV > 0 {
		return l.Mean
	}
	return float64(l.Least+l.Most) / 2
}

// String writes the length as [ParseLength] reads it.
func (l Length) String() string {
	switch {
	case l.CV > 0 && l.Most < LengthMax:
		return fmt.Sprintf("lognormal:%g:%g:%d", l.Mean, l.CV, l.Most)
	case l.CV > 0:
		return fmt.Sprintf("lognormal:%g:%g", l.Mean, l.CV)
	case l.Least == l.Most:
		return strconv.Itoa(l.Least)
	}
	return fmt.Sprintf("%d-%d", l.Least, l.Most)
}
