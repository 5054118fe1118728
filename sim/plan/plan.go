package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Settings are what a user says: names with values.
type Settings map[string]string

// ParseSettings reads settings as they are written in one line: kv=fp8,hit=80%.
func ParseSettings(text string) (Settings, error) {
	s := Settings{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=value, such as kv=fp8", strings.TrimSpace(part))
		}
		s[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return s, nil
}

// With returns the settings with those of other in their place.
func (s Settings) With(other Settings) Settings {
	all := maps.Clone(s)
	if all == nil {
		all = Settings{}
	}
	maps.Copy(all, other)
	return all
}

// defaults name what is planned with where nothing is said.
var defaults = Settings{ModelName: "llama-3-8b", DeviceName: "h100"}

// A Limit is how many requests one replica carries by one resource.
type Limit struct {
	Name string `json:"name"`
	// Rate is in requests per second.
	Rate float64 `json:"rate"`
}

// A Result is the plan for settings.
type Result struct {
	sheet *Sheet
	// Settings are those given, with the defaults of what was not.
	Settings Settings `json:"settings"`
	Values   Cells    `json:"-"`
	// Bottleneck names what binds: a limit, or an obstacle that no number of
	// replicas removes. Sentence says so with the numbers.
	Bottleneck string `json:"bottleneck"`
	Sentence   string `json:"sentence"`
	// Attainable is false if the objectives cannot be met by more replicas.
	Attainable bool `json:"attainable"`
	// Limits are the rates by resource, the smallest first, without what does
	// not limit.
	Limits []Limit `json:"limits"`
}

// A Planner works out plans with the arithmetic and the names it holds. It does
// not change and is safe for concurrent use.
type Planner struct {
	Sheet   *Sheet
	Catalog *Catalog
}

// New returns a planner with the names that come with the program.
func New() *Planner {
	sheet, err := parseSheet(sheetText)
	if err != nil {
		panic("plan: sheet.txt: " + err.Error()) // every test reads the same text
	}
	p, _, err := (&Planner{sheet, &Catalog{}}).Read(catalogText)
	if err != nil {
		panic("plan: catalog.yaml: " + err.Error())
	}
	return p
}

// Plan works out the plan for settings.
func (p *Planner) Plan(settings Settings) (*Result, error) {
	all := defaults.With(settings)
	given, err := p.resolve(all)
	if err != nil {
		return nil, err
	}
	values, err := p.Sheet.Evaluate(given)
	if err != nil {
		return nil, err
	}
	plan := &Result{sheet: p.Sheet, Settings: all, Values: values}
	plan.judge()
	return plan, nil
}

// resolve turns settings into values of cells. What is set by the name of a
// cell comes before what a model or device says.
func (p *Planner) resolve(settings Settings) (Cells, error) {
	given := Cells{}
	for _, kind := range Kinds() {
		name := strings.ToLower(settings[kind])
		if name == "" {
			continue
		}
		cells, ok := p.Catalog.Kind(kind)[name]
		if !ok {
			return nil, p.Catalog.unknown(kind, settings[kind])
		}
		maps.Copy(given, cells)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if slices.Contains(Kinds(), name) {
			continue
		}
		cell := p.Sheet.Cell(name)
		if cell == nil {
			return nil, p.Sheet.unknown(name)
		}
		value, err := Parse(cell.Unit, settings[name])
		if err == nil {
			err = withinRange(cell, value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		given[name] = value
	}
	return given, nil
}

// positive are the cells that other cells are divided by.
var positive = []string{
	"params", "active_params", "layers", "kv_heads", "head_dim", "weight_bytes", "kv_bytes", "memory", "bandwidth",
	"flops", "mfu", "mbu", "tp", "pp", "prompt", "output", "block", "swing", "utilisation", "link", "network",
	"host", "storage",
}

func withinRange(cell *Cell, value float64) error {
	switch {
	case cell.Unit == Fraction && value > 1:
		return fmt.Errorf("%g is more than 1: write a share from 0 to 1, or a percentage such as 80%%", value)
	case cell.Name == "percentile" && value >= 1:
		return fmt.Errorf("%g leaves no request to be slower: use less than 1, such as 0.99", value)
	case cell.Name == "swing" && value < 1:
		return fmt.Errorf("%g is less than 1: it is the peak over the trough", value)
	case value == 0 && slices.Contains(positive, cell.Name):
		return fmt.Errorf("it must be more than 0")
	}
	return nil
}

// judge finds the bottleneck.
func (r *Result) judge() {
	of := func(name string) float64 { return r.Values[name] }
	for _, bound := range r.sheet.Limits {
		if rate := bound.Expr.eval(of); rate > 0 && !math.IsInf(rate, 0) {
			r.Limits = append(r.Limits, Limit{bound.Name, rate})
		}
	}
	slices.SortStableFunc(r.Limits, func(a, b Limit) int { return cmp.Compare(a.Rate, b.Rate) })
	r.Attainable = true
	for _, bound := range r.sheet.Obstacles {
		if bound.Expr.eval(of) != 0 {
			r.Attainable = false
			r.Bottleneck, r.Sentence = bound.Name, r.Fill(bound.Sentence)
			return
		}
	}
	for _, bound := range r.sheet.Limits {
		if len(r.Limits) > 0 && bound.Name == r.Limits[0].Name {
			r.Bottleneck, r.Sentence = bound.Name, r.Fill(bound.Sentence)
		}
	}
}

// Fill puts the values of cells in place of their names in braces.
func (r *Result) Fill(sentence string) string {
	for _, name := range placeholders(sentence) {
		sentence = strings.ReplaceAll(sentence, "{"+name+"}", r.Text(name))
	}
	return sentence
}

// Text writes the value of a cell for people.
func (r *Result) Text(name string) string { return Format(r.sheet.Cell(name).Unit, r.Values[name]) }

// Numbers returns the values for JSON, which has no infinity: what is unbounded
// is nil.
func (r *Result) Numbers() map[string]*float64 {
	numbers := make(map[string]*float64, len(r.Values))
	for name, value := range r.Values {
		numbers[name] = nil
		if !math.IsInf(value, 0) && !math.IsNaN(value) {
			numbers[name] = &value
		}
	}
	return numbers
}

// An Explanation is the formula of a cell with what it was computed from.
type Explanation struct {
	Cell Cell
	// Value is the result, for people; Inputs are the cells of the formula.
	Value  string
	Inputs []string
	// Filled is the formula with values in the place of names. It is empty if
	// the value was set, or given by a model or a device.
	Filled string
}

// Why explains a cell.
func (r *Result) Why(name string) (*Explanation, error) {
	cell := r.sheet.Cell(name)
	if cell == nil {
		return nil, r.sheet.unknown(name)
	}
	e := &Explanation{Cell: *cell, Value: r.Text(name)}
	if cell.Expr == nil || r.isGiven(name) {
		return e, nil
	}
	e.Inputs = cell.Expr.names()
	e.Filled = cell.Expr.format(r.Text)
	return e, nil
}

// isGiven reports whether a cell has another value than its formula gives.
func (r *Result) isGiven(name string) bool {
	_, set := r.Settings[name]
	return set || r.sheet.Cell(name).Expr.eval(func(n string) float64 { return r.Values[n] }) != r.Values[name]
}
