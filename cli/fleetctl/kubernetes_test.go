package fleetctl

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/fleet"
	"parley/fleet/kube"
	"parley/fleet/scale"
	"parley/internal/testkit"
)

// podsOf returns the actuator of one process.
func podsOf(cluster *kube.Cluster, target kube.Target, name string, said *orders) *pods {
	return &pods{
		target:  target,
		cluster: cluster,
		order:   said.take,
		clock:   func() time.Time { return begun }, // as early as steps may be
		leaving: map[string]time.Time{},
		lease:   &kube.Lease{Cluster: cluster, Name: "scale", Identity: name, Duration: leaseLasts},
	}
}

// TestManifestNamesTheLease keeps the role of the manifest in step with what is asked for.
func TestManifestNamesTheLease(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testkit.Root(), "deploy", "kubernetes", "scale.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, target, _ := strings.Cut(string(text), "--kubernetes=")
	target, _, _ = strings.Cut(target, "\n")
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n"+
		"clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := (&podFlags{target: target, config: config}).pods(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{p.lease.Name, p.target.Name} {
		if !strings.Contains(string(text), "resourceNames: ["+name+"]") {
			t.Errorf("the role does not name %s", name)
		}
	}
	for _, wrong := range []podFlags{{target: "vllm", config: config}, {target: target, config: "/nowhere"}} {
		if _, err := wrong.pods(nil); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

// TestPods drains what leaves before there are fewer replicas: those with the fewest answers
// of a Deployment, those with the highest numbers of a StatefulSet.
func TestPods(t *testing.T) {
	for kind, victim := range map[string]string{"deployment": "w-0", "statefulset": "w-2"} {
		api, server := testkit.NewKube(t)
		at := "/apis/apps/v1/namespaces/llm/" + kind + "s/w/scale"
		api.Put(at, testkit.Replicas(3))
		api.Put("/api/v1/namespaces/llm/pods/w-0", map[string]any{})
		cluster := &kube.Cluster{API: server.URL, Namespace: "llm", HTTP: server.Client()}
		said := &orders{}
		p := podsOf(cluster, kube.Target{Kind: kind, Name: "w"}, "a", said)
		workers := []fleet.Standing{
			{Name: "w-0", State: fleet.Up, Answering: 1},
			{Name: "w-1", State: fleet.Up, Answering: 2},
			{Name: "w-2", State: fleet.Up, Answering: 3},
			{Name: "other-0", State: fleet.Up},
		}
		now := begun
		set := func(n int) {
			t.Helper()
			now = now.Add(2 * time.Second)
			if err := p.set(t.Context(), scale.Sizing{Workers: n}, workers, now); err != nil {
				t.Fatal(err)
			}
		}
		has := func(n int) {
			t.Helper()
			s, err := cluster.Scale(t.Context(), p.target)
			if err != nil || s.Wanted != n {
				t.Errorf("%s: there are %d replicas, %v, want %d", kind, s.Wanted, err, n)
			}
		}
		set(2)
		set(2)
		has(3) // it has an answer under way
		set(3) // it stays
		set(2)
		for i := range workers {
			workers[i].Answering = 0
		}
		set(2)
		has(2)
		want := []string{"drain " + victim, "resume " + victim, "drain " + victim}
		if !slices.Equal(said.said, want) {
			t.Errorf("%s: the gateway was asked to %q, want %q", kind, said.said, want)
		}
		patched := slices.ContainsFunc(api.Calls, func(c string) bool { return strings.HasPrefix(c, http.MethodPatch) })
		if patched != (kind == "deployment") {
			t.Errorf("%s: it was asked %q", kind, api.Calls)
		}
		set(5)
		has(5)
		if starting, _ := p.observe(t.Context(), workers, now); starting != 1 {
			t.Errorf("%s: %d start, want 1", kind, starting)
		}
		more := append(slices.Clone(workers), fleet.Standing{Name: "w-4", State: fleet.Up})
		starting, ready := p.observe(t.Context(), more, now.Add(40*time.Second))
		if starting != 0 || ready != 40*time.Second {
			t.Errorf("%s: %d start, ready in %v", kind, starting, ready)
		}
	}
}

// TestPodsDoNotWaitForever ends a worker whose answers do not end.
func TestPodsDoNotWaitForever(t *testing.T) {
	api, server := testkit.NewKube(t)
	api.Put("/apis/apps/v1/namespaces/llm/statefulsets/w/scale", testkit.Replicas(1))
	cluster := &kube.Cluster{API: server.URL, Namespace: "llm", HTTP: server.Client()}
	p := podsOf(cluster, kube.Target{Kind: "statefulset", Name: "w"}, "a", &orders{})
	workers := []fleet.Standing{{Name: "w-0", State: fleet.Draining, Answering: 1}}
	for after, want := range []int{1, 1, 0} {
		now := begun.Add(time.Duration(after) * (drainWithin + time.Second))
		if err := p.set(t.Context(), scale.Sizing{}, workers, now); err != nil {
			t.Fatal(err)
		}
		if s, err := cluster.Scale(t.Context(), p.target); err != nil || s.Wanted != want {
			t.Errorf("after %v there are %d replicas, %v, want %d", now.Sub(begun), s.Wanted, err, want)
		}
	}
}

// TestOneOfTwoScales lets one process act. The other one takes over when that ends, with the
// workers that it drained.
func TestOneOfTwoScales(t *testing.T) {
	api, server := testkit.NewKube(t)
	api.Put("/apis/apps/v1/namespaces/llm/statefulsets/w/scale", testkit.Replicas(2))
	cluster := &kube.Cluster{API: server.URL, Namespace: "llm", HTTP: server.Client()}
	target := kube.Target{Kind: "statefulset", Name: "w"}
	first, second := &orders{}, &orders{}
	a, b := podsOf(cluster, target, "a", first), podsOf(cluster, target, "b", second)
	workers := []fleet.Standing{{Name: "w-0", State: fleet.Up}, {Name: "w-1", State: fleet.Up, Answering: 1}}
	set := func(p *pods, n int, after time.Duration) {
		t.Helper()
		if err := p.set(t.Context(), scale.Sizing{Workers: n}, workers, begun.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	set(a, 1, 0)
	workers[1].State = fleet.Draining
	set(b, 4, time.Second)
	if a.standsBy() != "" || b.standsBy() != "a" {
		t.Errorf("a stands by for %q, b for %q", a.standsBy(), b.standsBy())
	}
	set(b, 2, 20*time.Second) // a is silent, and b takes over
	if b.standsBy() != "" || !slices.Equal(second.said, []string{"resume w-1"}) {
		t.Errorf("b stands by for %q, and asked to %q", b.standsBy(), second.said)
	}
	set(a, 1, 21*time.Second)
	if a.standsBy() != "b" || !slices.Equal(first.said, []string{"drain w-1", "resume w-1"}) {
		t.Errorf("a stands by for %q, and asked to %q", a.standsBy(), first.said)
	}
	b.release()
	set(a, 3, 22*time.Second)
	if s, err := cluster.Scale(t.Context(), target); err != nil || s.Wanted != 3 || a.standsBy() != "" {
		t.Errorf("there are %d replicas, %v", s.Wanted, err)
	}
}

// TestPodsSurviveTheAPIServer continues when the API server is back, and says what is
// forbidden.
func TestPodsSurviveTheAPIServer(t *testing.T) {
	api, server := testkit.NewKube(t)
	api.Put("/apis/apps/v1/namespaces/llm/deployments/w/scale", testkit.Replicas(1))
	cluster := &kube.Cluster{API: server.URL, Namespace: "llm", HTTP: server.Client()}
	p := podsOf(cluster, kube.Target{Kind: "deployment", Name: "w"}, "a", &orders{})
	set := func(after time.Duration) error {
		return p.set(t.Context(), scale.Sizing{Workers: 2}, nil, begun.Add(after))
	}
	api.Before = func(*http.Request) (int, string) { return http.StatusServiceUnavailable, "starting" }
	if err := set(0); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("without an API server: %v", err)
	}
	api.Before = func(r *http.Request) (int, string) {
		if r.Method == http.MethodPut {
			return http.StatusForbidden, fmt.Sprintf("cannot %s", r.URL.Path)
		}
		return 0, ""
	}
	if err := set(time.Second); err == nil ||
		!strings.Contains(err.Error(), `apiGroups: ["apps"], resources: [deployments/scale], verbs: [update]`) {
		t.Errorf("what is forbidden gives %v", err)
	}
	api.Before = nil
	if err := set(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	if s, err := cluster.Scale(t.Context(), p.target); err != nil || s.Wanted != 2 {
		t.Errorf("there are %d replicas, %v", s.Wanted, err)
	}
}
