package plan

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"parley/internal/suggest"
)

// A Unit is what the number of a cell counts.
type Unit string

// The units of cells.
const (
	Bytes             Unit = "B"
	Seconds           Unit = "s"
	BytesPerSecond    Unit = "B/s"
	OpsPerSecond      Unit = "op/s"
	Tokens            Unit = "tok"
	TokensPerSecond   Unit = "tok/s"
	RequestsPerSecond Unit = "req/s"
	Dollars           Unit = "$"
	DollarsPerHour    Unit = "$/h"
	Fraction          Unit = "share"
	Count             Unit = "n"
)

var units = []Unit{
	Bytes,
	Seconds,
	BytesPerSecond,
	OpsPerSecond,
	Tokens,
	TokensPerSecond,
	RequestsPerSecond,
	Dollars,
	DollarsPerHour,
	Fraction,
	Count,
}

// A Cell is one line of the sheet.
type Cell struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Unit  Unit   `json:"unit"`
	Title string `json:"title"`
	// Formula is the text of the formula. It is empty, as Expr is nil, for what
	// a model or a device must give.
	Formula string `json:"formula,omitempty"`
	Expr    *Expr  `json:"expr,omitempty"`
}

// A Bound says when something is the bottleneck, and in which words. An obstacle
// is one where Expr is not 0; of limits it is the one with the smallest Expr,
// in requests per second of one replica. Names in braces stand for cells.
type Bound struct {
	Name     string `json:"name"`
	Expr     *Expr  `json:"expr"`
	Sentence string `json:"sentence"`
}

// A Sheet is all the arithmetic.
type Sheet struct {
	Cells     []Cell         `json:"cells"`
	Obstacles []Bound        `json:"obstacles"`
	Limits    []Bound        `json:"limits"`
	byName    map[string]int // place in Cells
}

//go:embed sheet.txt
var sheetText string

// Cell returns the cell of that name, or nil.
func (s *Sheet) Cell(name string) *Cell {
	if i, ok := s.byName[name]; ok {
		return &s.Cells[i]
	}
	return nil
}

// The headings of the parts that hold bounds rather than cells.
const obstaclesHeading, limitsHeading = "Obstacles", "Limits"

func parseSheet(text string) (*Sheet, error) {
	s := &Sheet{byName: map[string]int{}}
	group := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		heading, isHeading := strings.CutPrefix(line, "## ")
		var err error
		switch {
		case isHeading:
			group = heading
		case line == "" || strings.HasPrefix(line, "#"):
		case group == obstaclesHeading:
			s.Obstacles, err = addBound(s.Obstacles, line)
		case group == limitsHeading:
			s.Limits, err = addBound(s.Limits, line)
		default:
			err = s.addCell(group, line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
	}
	return s, s.check()
}

func (s *Sheet) addCell(group, line string) error {
	name, rest, ok := strings.Cut(line, "=")
	fields := strings.Split(rest, " | ")
	if !ok || len(fields) != 3 {
		return fmt.Errorf("want name = formula | unit | title")
	}
	cell := Cell{
		Name:    strings.TrimSpace(name),
		Group:   group,
		Unit:    Unit(strings.TrimSpace(fields[1])),
		Title:   strings.TrimSpace(fields[2]),
		Formula: strings.TrimSpace(fields[0]),
	}
	if !isName(cell.Name) || s.Cell(cell.Name) != nil {
		return fmt.Errorf("%q is not a new name", cell.Name)
	}
	if cell.Formula == "?" {
		cell.Formula = ""
	} else {
		expr, err := parseExpr(cell.Formula)
		if err != nil {
			return err
		}
		cell.Expr = expr
	}
	s.byName[cell.Name] = len(s.Cells)
	s.Cells = append(s.Cells, cell)
	return nil
}

func addBound(bounds []Bound, line string) ([]Bound, error) {
	name, rest, _ := strings.Cut(line, "=")
	formula, sentence, ok := strings.Cut(rest, " | ")
	if !ok {
		return nil, fmt.Errorf("want name = formula | sentence")
	}
	expr, err := parseExpr(strings.TrimSpace(formula))
	return append(bounds, Bound{strings.TrimSpace(name), expr, strings.TrimSpace(sentence)}), err
}

// check finds names that no cell has, and units that are not known.
func (s *Sheet) check() error {
	for i := range s.Cells {
		c := &s.Cells[i]
		if !slices.Contains(units, c.Unit) {
			return fmt.Errorf("%s: no unit %q", c.Name, c.Unit)
		}
		if c.Expr != nil {
			if err := s.checkNames(c.Name, c.Expr.names()); err != nil {
				return err
			}
		}
	}
	for _, r := range slices.Concat(s.Obstacles, s.Limits) {
		if err := s.checkNames(r.Name, append(placeholders(r.Sentence), r.Expr.names()...)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sheet) checkNames(of string, names []string) error {
	for _, name := range names {
		if s.Cell(name) == nil {
			return fmt.Errorf("%s: no cell %q", of, name)
		}
	}
	return nil
}

// placeholders lists the names in braces.
func placeholders(sentence string) (names []string) {
	for {
		_, rest, ok := strings.Cut(sentence, "{")
		name, after, ok2 := strings.Cut(rest, "}")
		if !ok || !ok2 {
			return names
		}
		names, sentence = append(names, name), after
	}
}

// Evaluate computes all cells. given replaces formulas by values; it must hold
// the cells that have no formula.
func (s *Sheet) Evaluate(given map[string]float64) (map[string]float64, error) {
	run := evaluation{sheet: s, values: make(map[string]float64, len(s.Cells)), under: map[string]bool{}}
	for i := range s.Cells {
		c := &s.Cells[i]
		if value, ok := given[c.Name]; ok {
			run.values[c.Name] = value
		} else if c.Expr == nil {
			return nil, fmt.Errorf("%s is not known (%s): a model or a device must give it", c.Name, c.Title)
		}
	}
	for i := range s.Cells {
		run.of(s.Cells[i].Name)
	}
	if run.circle != "" {
		return nil, fmt.Errorf("%s depends on itself", run.circle)
	}
	return run.values, nil
}

// An evaluation computes cells when they are first asked for.
type evaluation struct {
	sheet  *Sheet
	values map[string]float64
	under  map[string]bool
	circle string
}

func (r *evaluation) of(name string) float64 {
	if value, ok := r.values[name]; ok {
		return value
	}
	if r.under[name] {
		r.circle = name
		return 0
	}
	r.under[name] = true
	value := r.sheet.Cell(name).Expr.eval(r.of)
	delete(r.under, name)
	r.values[name] = value
	return value
}

// unknown reports a name that no cell has, with the nearest that one has.
func (s *Sheet) unknown(name string) error {
	names := make([]string, len(s.Cells))
	for i := range s.Cells {
		names[i] = s.Cells[i].Name
	}
	if meant := suggest.Name(name, names); meant != "" {
		return fmt.Errorf("no setting %q: did you mean %s?", name, meant)
	}
	return fmt.Errorf("no setting %q: parley plan --why all lists all names", name)
}
