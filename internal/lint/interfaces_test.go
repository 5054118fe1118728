package lint

import (
	"go/types"
	"testing"
)

// standIns are interfaces with one implementation outside of tests, each for the
// reason given.
var standIns = map[string]string{
	"parley/compute.Chooser":             "an ability that not every backend has",
	"parley/compute/cpu.repeatable":      "tests have tasks whose workers are held up",
	"parley/compute/cuda.driver":         "tests have an interpreter instead of a GPU",
	"parley/gateway/book.redisClient":    "the client of go-redis, whose methods every importer would compile again",
	"parley/gateway/relay.redisClient":   "the client of go-redis, whose methods every importer would compile again",
	"parley/gateway/db.Row":              "rows of database/sql",
	"parley/gateway/exchange.finalShape": "an ability that not every shape has",
	"parley/gateway/models.loadable":     "an ability that not every worker has",
	"parley/gateway/runs.Store":          "tests have stores that fail",
}

// TestInterfacesHaveImplementations finds interfaces that one type implements, or none:
// that type itself would do.
func TestInterfacesHaveImplementations(t *testing.T) {
	house := wholeHouse(sources(t))
	var interfaces, concrete []*types.TypeName
	for _, pkg := range packages(sources(t)) {
		scope := house.load(pkg).Scope()
		for _, name := range scope.Names() {
			o, ok := scope.Lookup(name).(*types.TypeName)
			if !ok || o.IsAlias() {
				continue
			}
			under, isInterface := o.Type().Underlying().(*types.Interface)
			switch {
			case !isInterface:
				concrete = append(concrete, o)
			case under.IsMethodSet() && under.NumMethods() > 0:
				interfaces = append(interfaces, o)
			}
		}
	}
	found := map[string]bool{}
	for _, o := range interfaces {
		under, n := o.Type().Underlying().(*types.Interface), 0
		for _, c := range concrete {
			if types.Implements(types.NewPointer(c.Type()), under) {
				n++
			}
		}
		name := o.Pkg().Path() + "." + o.Name()
		if n > 1 {
			continue
		}
		found[name] = true
		if standIns[name] == "" {
			t.Errorf("%s: %s has %d implementations: use the type itself", positions.Position(o.Pos()), name, n)
		}
	}
	for name := range standIns {
		if !found[name] {
			t.Errorf("%s has several implementations, or is gone: remove it from standIns", name)
		}
	}
}
