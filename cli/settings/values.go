package settings

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"
)

func setText(field func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text == "" {
			return errBadValue
		}
		*field(s) = text
		return nil
	}
}

// errBadValue says that a text does not spell a value; the setting itself
// says what would.
var errBadValue = errors.New("bad value")

func setCount(field func(*Settings) *int) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return errBadValue
		}
		*field(s) = n
		return nil
	}
}

// setSize reads a number of bytes with a unit: B, KB, MB, GB, TB in thousands,
// KiB, MiB, GiB, TiB in powers of two.
func setSize(field func(*Settings) *int64) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		number := strings.TrimRight(text, "BKMGTi")
		unit := strings.TrimSuffix(text[len(number):], "B")
		base := int64(1000)
		if before, ok := strings.CutSuffix(unit, "i"); ok {
			base, unit = 1024, before
		}
		power := strings.Index(" KMGT", unit)
		if unit == "" {
			power = 0
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || len(unit) > 1 || power < 0 || n < 0 || n > 1e6 && power > 2 {
			return errBadValue
		}
		for range power {
			n *= float64(base)
		}
		*field(s) = int64(n)
		return nil
	}
}

func setTime(field func(*Settings) *time.Duration) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return errBadValue
		}
		*field(s) = d
		return nil
	}
}

func setSwitch(field func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text != "on" && text != "off" {
			return errBadValue
		}
		*field(s) = text == "on"
		return nil
	}
}

const keepWants = "a time such as 90d or 12h, or never"

// setKeep reads how long something is kept, also in days; never is 0.
func setKeep(field func(*Settings) *time.Duration) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text == "never" {
			*field(s) = 0
			return nil
		}
		d, err := parseDays(text)
		if err != nil || d < time.Hour {
			return errBadValue
		}
		*field(s) = d
		return nil
	}
}

// parseDays reads a duration, also in days.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// setPromisedShare reads the share of what is promised.
func setPromisedShare(field func(*Settings) *float64) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0.5 && share <= 0.9999) {
			return errBadValue
		}
		*field(s) = share
		return nil
	}
}

// setOff reads on or off.
func setOff(field func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text != "on" && text != "off" {
			return errBadValue
		}
		*field(s) = text == "off"
		return nil
	}
}

func setMany(field func(*Settings) *[]string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text == "" {
			return errBadValue
		}
		*field(s) = append(*field(s), text)
		return nil
	}
}

// secretMin is the length from which on a secret cannot be guessed.
const secretMin = 16

// setSecret reads a secret that is not too short.
func setSecret(field func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if len(text) < secretMin {
			return errBadValue
		}
		*field(s) = text
		return nil
	}
}

// setAddress reads a host and a port.
func setAddress(field func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return errBadValue
		}
		*field(s) = text
		return nil
	}
}
