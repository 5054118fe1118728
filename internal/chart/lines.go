package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// A Line is what was measured over time, at even distances.
type Line struct {
	Label  string
	Values []float64
	// Good lines are told from bad ones by colour, and bad ones are broken.
	Good bool
}

// A TimeSeries shows lines over time, from 0 up, with a level that they are compared
// with and a span of time that stands out.
type TimeSeries struct {
	Title string
	// X and Y say what the axes are; Step is the distance of two values.
	X, Y string
	Step float64
	// Level is drawn across, LevelLabel says what it is; 0 draws none.
	Level      float64
	LevelLabel string
	// From and To bound the span, in units of the X axis; SpanLabel says what it is.
	From, To  float64
	SpanLabel string
	Lines     []Line
}

// The layout of a series, in pixels.
const (
	seriesLeft, seriesTop = 64, 72
	seriesWidth           = 700
	seriesHeight          = 260
	seriesRight           = 76
	seriesFoot            = 52
	pointsMax             = 10000
)

const seriesStyle = `<style>
text{font:13px system-ui,sans-serif;fill:#24292f}
.title{font-weight:600;font-size:15px}.soft{fill:#57606a}
.grid{stroke:#d0d7de}.level{stroke:#57606a;stroke-dasharray:2 3}.span{fill:#d0d7de;opacity:.35}
.good{stroke:#1a7f37;fill:none;stroke-width:2.5}.bad{stroke:#cf222e;fill:none;stroke-width:2;stroke-dasharray:6 3}
text.good{fill:#1a7f37;stroke:none}text.bad{fill:#cf222e;stroke:none}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#30363d}.level{stroke:#9198a1}.span{fill:#6e7681}
.good{stroke:#3fb950}.bad{stroke:#f85149}text.good{fill:#3fb950}text.bad{fill:#f85149}}
</style>
`

// WriteSVG draws the series.
func (c *TimeSeries) WriteSVG(w io.Writer) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	width, height := seriesLeft+seriesWidth+seriesRight, seriesTop+seriesHeight+seriesFoot
	d := &timeSeriesDrawing{TimeSeries: c, right: c.end(), top: c.highest()}
	d.addf(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`, width, height, width, height)
	d.addf("\n<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n%s", escaped(c.Title), escaped(c.describe()),
		seriesStyle)
	d.addf(`<text class="title" x="12" y="24">%s</text>`+"\n", escaped(c.Title))
	d.frame(height)
	for i := range c.Lines {
		d.line(&c.Lines[i], i)
	}
	d.addf("</svg>\n")
	_, err := io.WriteString(w, d.String())
	return err
}

func (c *TimeSeries) check() error {
	if len(c.Lines) == 0 || !(c.Step > 0) {
		return errors.New("a time series needs a line and a step")
	}
	for _, l := range c.Lines {
		if len(l.Values) < 2 || len(l.Values) > pointsMax {
			return fmt.Errorf("line %q has %d values: expected 2 to %d", l.Label, len(l.Values), pointsMax)
		}
		for _, v := range l.Values {
			if !(v >= 0) || math.IsInf(v, 0) {
				return fmt.Errorf("line %q: %g is not a number from 0 up", l.Label, v)
			}
		}
	}
	return nil
}

func (c *TimeSeries) end() (x float64) {
	for _, l := range c.Lines {
		x = max(x, float64(len(l.Values)-1)*c.Step)
	}
	return x
}

func (c *TimeSeries) highest() float64 {
	y := c.Level
	for _, l := range c.Lines {
		for _, v := range l.Values {
			y = max(y, v)
		}
	}
	return max(y*1.05, 1e-9)
}

// describe says the whole picture in words.
func (c *TimeSeries) describe() string {
	var text strings.Builder
	for _, l := range c.Lines {
		inside, outside := c.means(&l)
		fmt.Fprintf(&text, "%s: %s on average", l.Label, number(outside))
		if c.To > c.From {
			fmt.Fprintf(&text, " outside of the span of %s, and %s in it", c.SpanLabel, number(inside))
		}
		text.WriteString(". ")
	}
	return text.String()
}

// means returns the averages of a line within the span and outside of it.
func (c *TimeSeries) means(l *Line) (inside, outside float64) {
	var n, m float64
	for i, v := range l.Values {
		if x := float64(i) * c.Step; x >= c.From && x < c.To {
			inside, n = inside+v, n+1
		} else {
			outside, m = outside+v, m+1
		}
	}
	return inside / max(n, 1), outside / max(m, 1)
}

// A timeSeriesDrawing is a series that is being drawn.
type timeSeriesDrawing struct {
	drawing
	*TimeSeries
	right, top float64
}

func (d *timeSeriesDrawing) x(v float64) float64 { return seriesLeft + seriesWidth*v/d.right }
func (d *timeSeriesDrawing) y(v float64) float64 { return seriesTop + seriesHeight*(1-v/d.top) }

func (d *timeSeriesDrawing) frame(height int) {
	const bottom = seriesTop + seriesHeight
	if d.To > d.From {
		d.addf(`<rect class="span" x="%.1f" y="%d" width="%.1f" height="%d"/>`, d.x(d.From), seriesTop,
			d.x(d.To)-d.x(d.From), seriesHeight)
		d.addf(`<text class="soft" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", (d.x(d.From)+d.x(d.To))/2,
			seriesTop+16, escaped(d.SpanLabel))
	}
	for _, v := range evenTicks(d.top) {
		d.addf(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, seriesLeft, d.y(v), seriesLeft+seriesWidth,
			d.y(v))
		d.addf(`<text class="soft" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", seriesLeft-8, d.y(v)+4, number(v))
	}
	for _, v := range evenTicks(d.right) {
		d.addf(`<text class="soft" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", d.x(v), bottom+18, number(v))
	}
	if d.Level > 0 {
		d.addf(`<line class="level" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, seriesLeft, d.y(d.Level),
			seriesLeft+seriesWidth, d.y(d.Level))
		d.addf(`<text class="soft" x="%d" y="%.1f">%s</text>`+"\n", seriesLeft+seriesWidth+6, d.y(d.Level)+4,
			escaped(d.LevelLabel))
	}
	d.addf(`<text class="soft" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", seriesLeft+seriesWidth/2, height-10,
		escaped(d.X))
	d.addf(`<text class="soft" x="12" y="%d">%s</text>`+"\n", seriesTop-8, escaped(d.Y))
}

// line draws a line, and its label in a row above all of them.
func (d *timeSeriesDrawing) line(l *Line, place int) {
	class := "bad"
	if l.Good {
		class = "good"
	}
	d.addf(`<polyline class="%s" points="`, class)
	for i, v := range l.Values {
		d.addf("%.1f,%.1f ", d.x(float64(i)*d.Step), d.y(v))
	}
	d.addf("\"/>\n")
	d.addf(`<text class="%s" x="%d" y="46">%s</text>`+"\n", class, seriesLeft+place*seriesWidth/len(d.Lines),
		escaped(l.Label))
}

// evenTicks returns about five even numbers from 0 to most.
func evenTicks(most float64) (out []float64) {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for most/step > 10 {
		step *= 2
	}
	for most/step < 4 {
		step /= 2
	}
	for i := 0; float64(i)*step <= most; i++ {
		out = append(out, float64(i)*step)
	}
	return out
}
