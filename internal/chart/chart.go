// Package chart draws measurements as SVG pictures for the documentation:
// estimates with their intervals, against a goal, one line each.
//
// A picture carries its own colours for light and dark pages, needs no script
// and no font file, and says in words (title and description) what it shows.
// The same rows give the same bytes, so that a kept picture changes only when
// the measurements do.
package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A Row is one line of a [Plot].
type Row struct {
	// Label stands at the left, Note at the right.
	Label, Note string
	// Value is the estimate, which lies between Low and High.
	Value, Low, High float64
	// Goal is where the estimate should be, or beyond; 0 draws none.
	Goal float64
	// Good, Bad and neither of them are told apart by colour and by shape.
	Good, Bad bool
}

// A Plot shows how many times as good one thing is as another, on an axis on
// which half as good is as far from 1 as twice as good. All numbers must be
// positive.
type Plot struct {
	Title string
	// Axis says what the numbers are.
	Axis string
	Rows []Row
}

// The layout, in pixels.
const (
	lineHeight  = 24
	headHeight  = 52
	footHeight  = 44
	labelWidth  = 270
	plotWidth   = 380
	noteWidth   = 190
	totalWidth  = labelWidth + plotWidth + noteWidth
	rowsMax     = 200
	minimumSpan = 2.0 // the axis shows at least this ratio between its ends
)

const style = `<style>
text{font:13px system-ui,sans-serif;fill:#24292f}
.title{font-weight:600;font-size:15px}.soft{fill:#57606a}
.grid{stroke:#d0d7de}.one{stroke:#57606a}.goal{stroke:#24292f;stroke-width:2}
.good{fill:#1a7f37;stroke:#1a7f37}.bad{fill:#cf222e;stroke:#cf222e}.open{fill:#9a6700;stroke:#9a6700}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#30363d}.one{stroke:#9198a1}.goal{stroke:#e6edf3}
.good{fill:#3fb950;stroke:#3fb950}.bad{fill:#f85149;stroke:#f85149}.open{fill:#d29922;stroke:#d29922}}
</style>
`

// WriteSVG draws the plot.
func (p *Plot) WriteSVG(w io.Writer) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	height := headHeight + lineHeight*len(p.Rows) + footHeight
	d := &drawing{axis: p.axis()}
	d.addf(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`, totalWidth, height, totalWidth, height)
	d.addf("\n<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n%s", escaped(p.Title), escaped(p.describe()), style)
	d.addf(`<text class="title" x="12" y="24">%s</text>`+"\n", escaped(p.Title))
	d.grid(headHeight-8, height-footHeight+4)
	for i := range p.Rows {
		d.row(&p.Rows[i], headHeight+lineHeight*i+lineHeight/2)
	}
	d.addf(`<text class="soft" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", labelWidth+plotWidth/2, height-8,
		escaped(p.Axis))
	d.addf("</svg>\n")
	_, err := io.WriteString(w, d.String())
	return err
}

func (p *Plot) check() error {
	if len(p.Rows) == 0 || len(p.Rows) > rowsMax {
		return fmt.Errorf("%d rows: expected 1 to %d", len(p.Rows), rowsMax)
	}
	for _, r := range p.Rows {
		for _, v := range []float64{r.Value, r.Low, r.High} {
			if !(v > 0) || math.IsInf(v, 0) {
				return fmt.Errorf("row %q: %g is not a positive number", r.Label, v)
			}
		}
		if r.Goal < 0 || math.IsNaN(r.Goal) || math.IsInf(r.Goal, 0) || r.Low > r.Value || r.Value > r.High {
			return errors.New(
				"row " + strconv.Quote(r.Label) + ": the value lies outside its interval, or the goal is not a number")
		}
	}
	return nil
}

// describe says the whole picture in words.
func (p *Plot) describe() string {
	var text strings.Builder
	for _, r := range p.Rows {
		fmt.Fprintf(&text, "%s: %s (%s to %s)", r.Label, number(r.Value), number(r.Low), number(r.High))
		if r.Goal > 0 {
			fmt.Fprintf(&text, ", goal %s", number(r.Goal))
		}
		text.WriteString(". ")
	}
	return text.String()
}

// An axis maps numbers between low and high to places, by their logarithm.
type axis struct{ low, high float64 }

// axis returns one that shows all rows, and 1.
func (p *Plot) axis() axis {
	a := axis{1, 1}
	for _, r := range p.Rows {
		a.low, a.high = min(a.low, r.Low), max(a.high, r.High)
		if r.Goal > 0 {
			a.low, a.high = min(a.low, r.Goal), max(a.high, r.Goal)
		}
	}
	if a.high/a.low < minimumSpan {
		a.high = a.low * minimumSpan
	}
	return axis{a.low / 1.08, a.high * 1.08}
}

func (a axis) x(v float64) float64 {
	return labelWidth + plotWidth*math.Log(v/a.low)/math.Log(a.high/a.low)
}

// ticks returns the powers of two on the axis, or of four or sixteen if there
// would be too many.
func (a axis) ticks() (out []float64) {
	const most = 9
	step := 1
	for math.Log2(a.high/a.low)/float64(step) > most {
		step *= 2
	}
	first := int(math.Ceil(math.Log2(a.low)))
	for e := first; math.Exp2(float64(e)) <= a.high; e++ {
		if e%step == 0 {
			out = append(out, math.Exp2(float64(e)))
		}
	}
	return out
}

// A drawing is a picture in the making.
type drawing struct {
	strings.Builder
	axis axis
}

func (d *drawing) addf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *drawing) grid(top, bottom int) {
	for _, v := range d.axis.ticks() {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		d.addf(`<line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, class, d.axis.x(v), top, d.axis.x(v), bottom)
		d.addf(`<text class="soft" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", d.axis.x(v), bottom+16,
			number(v))
	}
}

// row draws a line for the interval, a mark for the estimate (a disc if it is
// good, a cross if it is bad, else a ring) and a stroke for the goal.
func (d *drawing) row(r *Row, y int) {
	d.addf(`<text x="12" y="%d">%s</text>`, y+4, escaped(r.Label))
	if r.Goal > 0 {
		d.addf(`<line class="goal" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, d.axis.x(r.Goal), y-9, d.axis.x(r.Goal), y+9)
	}
	x := d.axis.x(r.Value)
	switch {
	case r.Good:
		d.interval(r, y, "good")
		d.addf(`<circle class="good" cx="%.1f" cy="%d" r="4.5"/>`, x, y)
	case r.Bad:
		d.interval(r, y, "bad")
		d.addf(`<path class="bad" stroke-width="2.5" d="M%.1f %dl8 8m0-8l-8 8"/>`, x-4, y-4)
	default:
		d.interval(r, y, "open")
		d.addf(`<circle class="open" style="fill:none" stroke-width="2.5" cx="%.1f" cy="%d" r="4"/>`, x, y)
	}
	d.addf(`<text class="soft" x="%d" y="%d">%s</text>`+"\n", labelWidth+plotWidth+12, y+4, escaped(r.Note))
}

func (d *drawing) interval(r *Row, y int, class string) {
	d.addf(`<line class="%s" stroke-width="2" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, class, d.axis.x(r.Low), y,
		d.axis.x(r.High), y)
}

// number writes v with three digits at most.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a builder takes everything
	return out.String()
}
