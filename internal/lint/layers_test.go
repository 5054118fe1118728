package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// layers lists all packages, top first. A package imports only what stands
// below it. Packages of one line do not import each other.
//
// model/weights stands below compute although its folder is model's: the
// quantized block formats are the words that file readers and kernels share.
var layers = [][]string{
	{"test/scripted", "cmd/parley", "internal/builtin/gen", "internal/licenses/gen"},
	{"cli/bench", "cli/chat", "cli/doctor", "cli/drill", "cli/fleetctl", "cli/keys", "cli/monitor", "cli/planner",
		"cli/users",
		"cli/simulate"},
	{"cli/serve"},
	{"cli/library"},
	{"cli/settings"},
	{"cli/remote"},
	{"cli"},
	{"internal/load", "sim"},
	{"sim/traffic"},
	{"internal/builtin"},
	{"gateway", "worker/host", "web", "fleet"},
	{"gateway/ops", "gateway/conversations", "gateway/responses", "gateway/ollama", "gateway/native",
		"gateway/apidoc", "gateway/signin"},
	{"gateway/runs", "gateway/history", "gateway/shape"},
	{"fleet/discover", "fleet/withdraw", "fleet/scale", "sim/plan", "sim/cost"},
	{"gateway/exchange", "gateway/job"},
	{"gateway/bill", "gateway/screening"},
	{"gateway/record", "gateway/models", "gateway/revoke", "gateway/prefix"},
	{"gateway/answer", "gateway/hijack", "gateway/issuer"},
	{"gateway/dialect"},
	{"gateway/infer"},
	{"worker/kvstore"},
	{"gateway/admin", "gateway/audit", "gateway/otlp", "gateway/batch", "gateway/ledger", "gateway/tenant", "queue"},
	{"gateway/openai", "gateway/convo", "gateway/book", "gateway/relay", "gateway/safety", "gateway/accounts"},
	{"gateway/db", "gateway/anthropic", "gateway/lark", "fleet/kube", "limit"},
	{"worker", "worker/kvpeer", "worker/meter"},
	{"worker/wire", "worker/kvwire"},
	{"route"},
	{"worker/foreign", "worker/kvevents"},
	{"route/kvindex", "worker/zmq", "worker/gbnf"},
	{"token"},
	{"token/jinja", "token/jsonscan", "token/gauge"},
	{"engine"},
	{"engine/draft"},
	{"engine/sched", "engine/tier"},
	{"engine/grammar", "engine/kv", "engine/sample", "engine/spec"},
	{"engine/automaton"},
	{"model"},
	{"compute/cpu", "compute/cuda"},
	{"compute", "compute/libcuda", "compute/nvml"},
	{"model/store"},
	{"model/weights", "model/hub"},
	{"model/f8", "model/int4"},
	{"worker/workertest"},
	{"internal/stat", "internal/chart", "internal/term", "internal/largepage", "internal/local", "internal/tlsfile",
		"internal/logrepeat", "internal/licenses", "internal/gctune", "internal/clientconfig",
		"internal/supervise", "internal/fairshare", "internal/suggest", "internal/lzma", "internal/exactmath",
		"internal/dirlock", "internal/mapfile"},
	{"."},
}

// apart are packages outside the layers: tests, and generators that write
// source files and import nothing of ours.
var apart = []string{"internal/lint", "internal/testkit", "internal/scripttest", "internal/ptx", "internal/ptx/arith",
	"internal/ptx/syntax", "compute/computetest", "compute/cpu/asmgen"}

// testOnly are packages that product code may not import.
var testOnly = []string{"internal/testkit", "internal/scripttest", "internal/ptx", "internal/ptx/arith",
	"internal/ptx/syntax", "compute/computetest"}

// nevers are the three rules that no refactoring may bend, checked over all
// paths of imports.
var nevers = []struct{ from, to string }{
	{"gateway", "engine"}, {"gateway", "model"}, {"gateway", "compute"},
	{"engine", "token"}, {"engine", "fleet"}, {"engine", "gateway"},
	{"gateway/job", "gateway/exchange"},
	{"sim", "gateway"}, {"sim", "worker"}, {"sim", "model"}, {"sim", "compute"},
}

func rank(pkg string) (int, bool) {
	for i, row := range layers {
		if slices.Contains(row, pkg) {
			return i, true
		}
	}
	return 0, false
}

func TestEveryPackageHasALayer(t *testing.T) {
	for _, pkg := range packages(sources(t)) {
		if _, ok := rank(pkg); !ok && !slices.Contains(apart, pkg) {
			t.Errorf("package %s has no place in the table of layers", pkg)
		}
	}
}

func TestArrowsPointDown(t *testing.T) {
	for _, complaint := range upward(importGraph(sources(t))) {
		t.Error(complaint)
	}
}

// upward lists the imports that do not point down.
func upward(graph map[string][]string) (complaints []string) {
	for pkg, imports := range graph {
		from, ok := rank(pkg)
		if !ok {
			continue
		}
		for _, imp := range imports {
			if to, ok := rank(imp); !ok {
				complaints = append(complaints, fmt.Sprintf("%s imports %s, which stands outside the layers", pkg, imp))
			} else if to <= from {
				complaints = append(complaints, fmt.Sprintf("%s imports %s, which does not stand below it", pkg, imp))
			}
		}
	}
	return complaints
}

func TestNevers(t *testing.T) {
	for _, complaint := range reached(importGraph(sources(t))) {
		t.Error(complaint)
	}
}

// reached lists the chains of imports that break one of the nevers.
func reached(graph map[string][]string) (complaints []string) {
	for _, never := range nevers {
		for pkg := range graph {
			if !under(pkg, never.from) {
				continue
			}
			if chain := pathTo(graph, pkg, never.to, map[string]bool{}); chain != nil {
				complaints = append(complaints,
					fmt.Sprintf("%s must never reach %s: %s", never.from, never.to, strings.Join(chain, " -> ")))
			}
		}
	}
	return complaints
}

// pathTo returns a chain of imports from pkg to a package under dir, or nil.
func pathTo(graph map[string][]string, pkg, dir string, seen map[string]bool) []string {
	if under(pkg, dir) {
		return []string{pkg}
	}
	if seen[pkg] {
		return nil
	}
	seen[pkg] = true
	for _, imp := range graph[pkg] {
		if chain := pathTo(graph, imp, dir, seen); chain != nil {
			return append([]string{pkg}, chain...)
		}
	}
	return nil
}

func TestTestPackagesStayInTests(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || slices.Contains(testOnly, path.Dir(s.path)) {
			continue
		}
		for _, pkg := range misused(s.imports()) {
			t.Errorf("%s imports %s, which is for tests alone", s.path, pkg)
		}
	}
}

// misused returns the imports that only tests may have.
func misused(imports []string) (out []string) {
	for _, pkg := range imports {
		if slices.Contains(testOnly, pkg) {
			out = append(out, pkg)
		}
	}
	return out
}

func TestRulesCatchOffenders(t *testing.T) {
	up := upward(map[string][]string{"model/weights": {"compute"}})
	if len(up) != 1 {
		t.Errorf("an upward import gave %q", up)
	}
	if got := misused([]string{"compute", "internal/ptx"}); len(got) != 1 {
		t.Errorf("an import of a test package gave %q", got)
	}
	far := reached(map[string][]string{"gateway": {"token"}, "token": {"worker/host"}, "worker/host": {"engine"},
		"engine": nil})
	if len(far) != 1 || !strings.Contains(far[0], "gateway -> token -> worker/host -> engine") {
		t.Errorf("a forbidden chain gave %q", far)
	}
}
