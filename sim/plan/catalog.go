package plan

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Cells are values of some cells.
type Cells map[string]float64

// A Catalog is what settings may name: model shapes, devices and number types.
// Each stands for the values of a few cells.
type Catalog struct {
	Models  map[string]Cells `json:"models"`
	Devices map[string]Cells `json:"devices"`
	Weights map[string]Cells `json:"weights"`
	KV      map[string]Cells `json:"kv"`
}

// The settings that name an entry of the catalog.
const (
	ModelName   = "model"
	DeviceName  = "device"
	WeightsName = "weights"
	KVName      = "kv"
)

// Kinds lists those settings.
func Kinds() []string { return []string{ModelName, DeviceName, WeightsName, KVName} }

// Kind returns the entries that a setting of that name chooses from, or nil.
func (c *Catalog) Kind(setting string) map[string]Cells {
	switch setting {
	case ModelName:
		return c.Models
	case DeviceName:
		return c.Devices
	case WeightsName:
		return c.Weights
	case KVName:
		return c.KV
	}
	return nil
}

//go:embed catalog.yaml
var catalogText []byte

// Read reads the YAML of a user and returns a planner that knows its names:
// models, devices, weights and kv add to the catalog, and all other names are
// settings. weights and kv are settings, too, where a name stands in place of
// entries.
func (p *Planner) Read(text []byte) (*Planner, Settings, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, nil, fmt.Errorf("not the YAML of a plan: %w", err)
	}
	before, c := p.Catalog, &Catalog{}
	settings := Settings{}
	var errs []error
	for name, kind := range map[string]struct {
		to  *map[string]Cells
		old map[string]Cells
	}{
		"models": {&c.Models, before.Models}, "devices": {&c.Devices, before.Devices},
		WeightsName: {&c.Weights, before.Weights}, KVName: {&c.KV, before.KV},
	} {
		*kind.to = map[string]Cells{}
		maps.Copy(*kind.to, kind.old)
		entries, ok := doc[name].(map[string]any)
		if ok {
			delete(doc, name)
		}
		errs = append(errs, p.Sheet.addEntries(*kind.to, name, entries))
	}
	for name, value := range doc {
		settings[name] = fmt.Sprint(value)
	}
	return &Planner{p.Sheet, c}, settings, errors.Join(errs...)
}

func (s *Sheet) addEntries(to map[string]Cells, kind string, entries map[string]any) error {
	var errs []error
	for name, value := range entries {
		fields, _ := value.(map[string]any)
		cells, err := s.readCells(fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", kind, name, err))
		}
		to[strings.ToLower(name)] = cells
	}
	return errors.Join(errs...)
}

// readCells reads the fields of one entry.
func (s *Sheet) readCells(fields map[string]any) (Cells, error) {
	cells := Cells{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		cell := s.Cell(name)
		if cell == nil {
			return nil, s.unknown(name)
		}
		value, err := Parse(cell.Unit, fmt.Sprint(fields[name]))
		if err == nil {
			err = withinRange(cell, value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		cells[name] = value
	}
	return cells, nil
}

func (c *Catalog) unknown(kind, name string) error {
	known := strings.Join(slices.Sorted(maps.Keys(c.Kind(kind))), ", ")
	return fmt.Errorf("no %s %q: use one of %s, or describe yours in a file (--file)", kind, name, known)
}
