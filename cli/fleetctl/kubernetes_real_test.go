package fleetctl

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"parley/fleet"
	"parley/fleet/kube"
	"parley/fleet/scale"
	"parley/internal/supervise"
	"parley/internal/testkit"
)

// A realKube is an API server with its database, as `make k8s` builds them. It has no
// controllers: no pod ever starts.
type realKube struct {
	t          *testing.T
	bin, dir   string
	etcd, addr string
	ca         *testkit.CA
	arguments  []string
	server     *exec.Cmd
	done       chan struct{} // closed when server has ended
	client     *http.Client
}

// realWait is how long the API server may take for anything.
const realWait = 5 * time.Minute

// rootToken is that of a user who may do everything.
const rootToken = "root-0123456789"

// startKube starts both, or skips the test where they are not built.
func startKube(t *testing.T) *realKube {
	bin := os.Getenv("PARLEY_KUBE")
	if bin == "" {
		t.Skip("NOT RUN: a real API server of Kubernetes: make k8s")
	}
	k := &realKube{t: t, bin: bin, dir: t.TempDir(), ca: testkit.NewCA(t, "kubernetes")}
	k.etcd, k.addr = k.free(), k.free()
	peer := "http://" + k.free()
	k.start("etcd", "--data-dir", filepath.Join(k.dir, "etcd"), "--listen-client-urls", "http://"+k.etcd,
		"--advertise-client-urls", "http://"+k.etcd, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer, "--log-level", "error", "--unsafe-no-fsync")
	certificate, key := k.ca.Issue(k.dir, 2, time.Now().Add(24*time.Hour))
	signing := filepath.Join(k.dir, "accounts.pem")
	secret, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	testkit.WritePEM(t, signing, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(secret))
	tokens := filepath.Join(k.dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(rootToken+",root,1,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(k.addr)
	if err != nil {
		t.Fatal(err)
	}
	k.arguments = []string{"--etcd-servers", "http://" + k.etcd, "--bind-address", host, "--secure-port", port,
		"--advertise-address", host, "--service-cluster-ip-range", "10.0.0.0/24",
		"--tls-cert-file", certificate, "--tls-private-key-file", key, "--cert-dir", k.dir,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-signing-key-file", signing,
		"--service-account-key-file", signing, "--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none"}
	if k.client, err = kube.Dial(k.ca.File); err != nil {
		t.Fatal(err)
	}
	k.serve()
	return k
}

func (k *realKube) free() string {
	address, err := supervise.FreeAddress()
	if err != nil {
		k.t.Fatal(err)
	}
	return address
}

// start starts a program that ends with the test at the latest. What is returned is closed
// when it has ended.
func (k *realKube) start(name string, args ...string) (*exec.Cmd, chan struct{}) {
	log, err := os.OpenFile(filepath.Join(k.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		k.t.Fatal(err)
	}
	c := exec.Command(filepath.Join(k.bin, name), args...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); defer log.Close(); _ = c.Wait() }()
	k.t.Cleanup(func() { _ = c.Process.Kill(); <-done })
	return c, done
}

// serve starts the API server and waits until it is ready.
func (k *realKube) serve() {
	k.t.Helper()
	k.server, k.done = k.start("kube-apiserver", k.arguments...)
	for late := time.After(realWait); ; {
		status, _ := k.ask(http.MethodGet, "/readyz", nil)
		if status == http.StatusOK {
			return
		}
		select {
		case <-k.done:
			said, _ := os.ReadFile(filepath.Join(k.dir, "kube-apiserver.log"))
			k.t.Fatalf("the API server ended: %s", said[max(0, len(said)-4000):])
		case <-late:
			k.t.Fatal("the API server is not ready")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// kill ends the API server at once.
func (k *realKube) kill() {
	if err := k.server.Process.Kill(); err != nil {
		k.t.Fatal(err)
	}
	<-k.done
}

// ask sends a request as the user who may do everything; 0 if no server answers.
func (k *realKube) ask(method, path string, body any) (int, []byte) {
	text, err := json.Marshal(body)
	if err != nil {
		k.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(k.t.Context(), method, "https://"+k.addr+path, bytes.NewReader(text))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+rootToken)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := k.client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, answer
}

// create creates an object and returns it as the server has it.
func (k *realKube) create(path string, object any) []byte {
	k.t.Helper()
	status, answer := k.ask(http.MethodPost, path, object)
	if status != http.StatusCreated {
		k.t.Fatalf("POST %s gives %d: %s", path, status, answer)
	}
	return answer
}

// apply creates the objects of a manifest in a namespace.
func (k *realKube) apply(file, namespace string) {
	k.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		k.t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var object map[string]any
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			k.t.Fatal(err)
		}
		version := object["apiVersion"].(string)
		at := "/apis/" + version
		if version == "v1" {
			at = "/api/v1"
		}
		k.create(at+"/namespaces/"+namespace+"/"+strings.ToLower(object["kind"].(string))+"s", object)
	}
}

// account returns a cluster with the rights of a service account, whose token the server
// issues. It counts conflicts.
func (k *realKube) account(name string, conflicts *atomic.Int64) *kube.Cluster {
	k.t.Helper()
	answer := k.create("/api/v1/namespaces/llm/serviceaccounts/"+name+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}})
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &issued); err != nil || issued.Status.Token == "" {
		k.t.Fatalf("the token of %s: %s", name, answer)
	}
	file := filepath.Join(k.dir, name+".token")
	if err := os.WriteFile(file, []byte(issued.Status.Token), 0o600); err != nil {
		k.t.Fatal(err)
	}
	client := *k.client
	client.Transport = counting{k.client.Transport, conflicts}
	return &kube.Cluster{API: "https://" + k.addr, Namespace: "llm", TokenFile: file, HTTP: &client}
}

// counting counts the conflicts among what is answered.
type counting struct {
	http.RoundTripper
	conflicts *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusConflict {
		c.conflicts.Add(1)
	}
	return response, err
}

// TestRealKubernetes scales each kind, with the role of the manifest, through conflicts, a
// restart of the API server and two processes that scale.
func TestRealKubernetes(t *testing.T) {
	k := startKube(t)
	for _, name := range []string{"llm", "elsewhere"} {
		k.create("/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
	}
	k.installGroups()
	k.populate()
	k.apply(filepath.Join(testkit.Root(), "deploy", "kubernetes", "scale.yaml"), "llm")
	var conflicts atomic.Int64
	cluster := k.account("parley-scale", &conflicts)
	t.Run("rights", func(t *testing.T) { k.rights(t, cluster) })
	t.Run("kinds", func(t *testing.T) { k.kinds(t, cluster) })
	t.Run("conflicts", func(t *testing.T) { k.conflicts(t, cluster, &conflicts) })
	t.Run("leaders", func(t *testing.T) { k.leaders(t, cluster) })
	t.Run("restart", func(t *testing.T) { k.restart(t, cluster) })
}

// installGroups teaches the API server LeaderWorkerSets, as far as they are scaled.
func (k *realKube) installGroups() {
	replicas := map[string]any{"type": "integer", "format": "int32", "default": 1}
	fields := map[string]any{
		"spec":   map[string]any{"type": "object", "properties": map[string]any{"replicas": replicas}},
		"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	}
	k.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"metadata": map[string]any{"name": "leaderworkersets.leaderworkerset.x-k8s.io", "annotations": map[string]any{
			"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/lws"}},
		"spec": map[string]any{
			"group": "leaderworkerset.x-k8s.io",
			"scope": "Namespaced",
			"names": map[string]any{"kind": "LeaderWorkerSet", "plural": "leaderworkersets",
				"singular": "leaderworkerset", "shortNames": []string{"lws"}},
			"versions": []any{map[string]any{
				"name":    "v1",
				"served":  true,
				"storage": true,
				"schema":  map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": fields}},
				"subresources": map[string]any{"status": map[string]any{}, "scale": map[string]any{
					"specReplicasPath":   ".spec.replicas",
					"statusReplicasPath": ".status.replicas",
					"labelSelectorPath":  ".status.hpaPodSelector"}}}},
		}})
	for late := time.After(realWait); ; {
		status, _ := k.ask(http.MethodGet, "/apis/leaderworkerset.x-k8s.io/v1/namespaces/llm/leaderworkersets", nil)
		if status == http.StatusOK {
			return
		}
		select {
		case <-late:
			k.t.Fatal("LeaderWorkerSets are not served")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// populate creates what is scaled, each called vllm, and a pod.
func (k *realKube) populate() {
	pod := map[string]any{"containers": []any{map[string]any{"name": "vllm", "image": "vllm"}}}
	labels := map[string]any{"app": "vllm"}
	spec := map[string]any{
		"replicas":    2,
		"serviceName": "vllm",
		"selector":    map[string]any{"matchLabels": labels},
		"template":    map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod},
	}
	named := func(name string) map[string]any { return map[string]any{"name": name} }
	k.create("/apis/apps/v1/namespaces/llm/statefulsets", map[string]any{"metadata": named("vllm"), "spec": spec})
	delete(spec, "serviceName")
	for _, name := range []string{"vllm", "other"} {
		k.create("/apis/apps/v1/namespaces/llm/deployments", map[string]any{"metadata": named(name), "spec": spec})
	}
	k.create("/apis/leaderworkerset.x-k8s.io/v1/namespaces/llm/leaderworkersets", map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": named("vllm"),
		"spec": map[string]any{"replicas": 2}})
	k.create("/api/v1/namespaces/llm/pods", map[string]any{"metadata": named("vllm-abc"), "spec": pod})
}

// realLease is the one that the role of the manifest allows.
const realLease = "parley-scale-deployment-vllm"

var realDeployment = kube.Target{Kind: "deployment", Name: "vllm"}

// rights finds what the role of the manifest does not allow, and what it does.
func (k *realKube) rights(t *testing.T, cluster *kube.Cluster) {
	if _, err := cluster.Scale(t.Context(), realDeployment); err != nil {
		t.Errorf("the role does not do: %v", err)
	}
	if err := cluster.EndFirst(t.Context(), "vllm-abc", true); err != nil {
		t.Errorf("the role does not do: %v", err)
	}
	_, answer := k.ask(http.MethodGet, "/api/v1/namespaces/llm/pods/vllm-abc", nil)
	if !bytes.Contains(answer, []byte(`"controller.kubernetes.io/pod-deletion-cost":"-1000"`)) {
		t.Errorf("the pod has not its cost: %s", answer)
	}
	for target, rule := range map[kube.Target]string{
		{Kind: "deployment", Name: "other"}: `{apiGroups: ["apps"], resources: [deployments/scale], verbs: [get]}`,
		{Kind: "leaderworkerset", Name: "vllm"}: `{apiGroups: ["leaderworkerset.x-k8s.io"], resources: ` +
			`[leaderworkersets/scale], verbs: [get]}`,
	} {
		if _, err := cluster.Scale(t.Context(), target); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("without a right to %v: %v", target, err)
		}
	}
	k.create("/api/v1/namespaces/elsewhere/serviceaccounts", map[string]any{"metadata": map[string]any{"name": "x"}})
	away := *cluster
	away.Namespace = "elsewhere"
	lease := kube.Lease{Cluster: &away, Name: "x", Identity: "x", Duration: leaseLasts}
	if _, _, err := lease.Hold(t.Context(), time.Now()); err == nil ||
		!strings.Contains(err.Error(), `{apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [get]}`) {
		t.Errorf("without a right to the lease: %v", err)
	}
	away = *cluster
	away.TokenFile, away.Token = "", "guessed"
	if _, err := away.Scale(t.Context(), realDeployment); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a guessed token: %v", err)
	}
}

// kinds changes the replicas of each kind, with the rules that the manifest names.
func (k *realKube) kinds(t *testing.T, cluster *kube.Cluster) {
	k.create("/apis/rbac.authorization.k8s.io/v1/namespaces/llm/roles", map[string]any{
		"metadata": map[string]any{"name": "all-kinds"},
		"rules": []any{
			map[string]any{"apiGroups": []string{"apps"}, "resources": []string{"statefulsets/scale"},
				"verbs": []string{"get", "update"}},
			map[string]any{"apiGroups": []string{"leaderworkerset.x-k8s.io"},
				"resources": []string{"leaderworkersets/scale"}, "verbs": []string{"get", "update"}},
		}})
	k.create("/apis/rbac.authorization.k8s.io/v1/namespaces/llm/rolebindings", map[string]any{
		"metadata": map[string]any{"name": "all-kinds"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all-kinds"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "parley-scale"}},
	})
	for kind, at := range map[string]string{"deployment": "apps/v1/namespaces/llm/deployments",
		"statefulset":     "apps/v1/namespaces/llm/statefulsets",
		"leaderworkerset": "leaderworkerset.x-k8s.io/v1/namespaces/llm/leaderworkersets"} {
		target := kube.Target{Kind: kind, Name: "vllm"}
		seen := eventually(t, func() (kube.Scale, error) { return cluster.Scale(t.Context(), target) })
		if seen.Wanted != 2 {
			t.Errorf("%v has %d replicas, want 2", target, seen.Wanted)
		}
		if err := cluster.SetReplicas(t.Context(), target, seen, 3); err != nil {
			t.Fatal(err)
		}
		var object struct{ Spec struct{ Replicas int } }
		_, answer := k.ask(http.MethodGet, "/apis/"+at+"/vllm", nil)
		if err := json.Unmarshal(answer, &object); err != nil || object.Spec.Replicas != 3 {
			t.Errorf("%v has %s", target, answer)
		}
	}
	missing := kube.Target{Kind: "statefulset", Name: "nothing"}
	if _, err := cluster.Scale(t.Context(), missing); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("what does not exist gives %v", err)
	}
}

// eventually tries until something succeeds: the authorizer sees new roles a little later.
func eventually[T any](t *testing.T, try func() (T, error)) T {
	t.Helper()
	for late := time.After(realWait); ; {
		v, err := try()
		if err == nil {
			return v
		}
		select {
		case <-late:
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// conflicts changes the replicas while other fields change, and while other processes change
// them, too.
func (k *realKube) conflicts(t *testing.T, cluster *kube.Cluster, counted *atomic.Int64) {
	seen, err := cluster.Scale(t.Context(), realDeployment)
	if err != nil {
		t.Fatal(err)
	}
	label := func(value string) {
		status, answer := k.ask(http.MethodPatch, "/apis/apps/v1/namespaces/llm/deployments/vllm",
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"changed": value}}})
		if status != http.StatusOK {
			t.Fatalf("a label: %d %s", status, answer)
		}
	}
	label("once")
	before := counted.Load()
	if err := cluster.SetReplicas(t.Context(), realDeployment, seen, 4); err != nil || counted.Load() == before {
		t.Errorf("after a change of a label: %v, with %d conflicts", err, counted.Load()-before)
	}
	err = cluster.SetReplicas(t.Context(), realDeployment, seen, 5)
	if err == nil || !strings.Contains(err.Error(), "another one set 4") {
		t.Errorf("after another change of the replicas: %v", err)
	}
	seen, err = cluster.Scale(t.Context(), realDeployment)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var won atomic.Int64
	for i := range 8 { // of changes from the same state one is made
		all.Go(func() {
			if cluster.SetReplicas(t.Context(), realDeployment, seen, 10+i) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 8 changes from the same state were made", won.Load())
	}
}

// leaders lets processes take the lease at the same time, one after the end of another, and
// after its release.
func (k *realKube) leaders(t *testing.T, cluster *kube.Cluster) {
	leases := make([]*kube.Lease, 8)
	for i := range leases {
		leases[i] = &kube.Lease{
			Cluster:  cluster,
			Name:     realLease,
			Identity: fmt.Sprint("process-", i),
			Duration: leaseLasts,
		}
	}
	held := func(now time.Time) (holders []int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for i, l := range leases {
			all.Go(func() {
				until, _, err := l.Hold(t.Context(), now)
				if err != nil {
					t.Error(err)
				}
				if now.Before(until) {
					mu.Lock()
					defer mu.Unlock()
					holders = append(holders, i)
				}
			})
		}
		all.Wait()
		if len(holders) > 1 {
			t.Errorf("%v hold the lease", holders)
		}
		return holders
	}
	now := time.Now()
	first := held(now)
	if len(first) != 1 {
		t.Fatalf("%v hold the lease", first)
	}
	for range 3 {
		now = now.Add(leaseLasts / 2)
		if again := held(now); len(again) != 1 || again[0] != first[0] {
			t.Errorf("%v hold the lease, want %v", again, first)
		}
	}
	dead := leases[first[0]]
	leases = append(leases[:first[0]:first[0]], leases[first[0]+1:]...)
	held(now.Add(time.Second)) // all have seen the last renewal then
	if early := held(now.Add(leaseLasts / 2)); len(early) != 0 {
		t.Errorf("%v hold the lease of one that may be alive", early)
	}
	now = now.Add(2 * leaseLasts)
	second := held(now)
	if len(second) != 1 {
		t.Fatalf("%v hold the lease", second)
	}
	if until, holder, err := dead.Hold(t.Context(), now); err != nil || now.Before(until) ||
		holder != leases[second[0]].Identity {
		t.Errorf("one that was dead holds the lease until %v, %q does, %v", until, holder, err)
	}
	if err := leases[second[0]].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, holder, err := dead.Hold(t.Context(), now); err != nil || holder != dead.Identity {
		t.Errorf("after its release %q holds the lease, %v", holder, err)
	}
	if err := dead.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// restart kills the API server under the actuator and starts it again: another process takes
// over meanwhile only if the first one lost its lease.
func (k *realKube) restart(t *testing.T, cluster *kube.Cluster) {
	a := podsOf(cluster, realDeployment, "a", &orders{})
	b := podsOf(cluster, realDeployment, "b", &orders{})
	a.lease.Name, b.lease.Name = realLease, realLease
	now := begun
	workers := []fleet.Standing{{Name: "vllm-abc", State: fleet.Up}}
	set := func(p *pods, n int) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return p.set(ctx, scale.Sizing{Workers: n}, workers, now)
	}
	has := func(n int) {
		t.Helper()
		s, err := cluster.Scale(t.Context(), realDeployment)
		if err != nil || s.Wanted != n {
			t.Errorf("there are %d replicas, %v, want %d", s.Wanted, err, n)
		}
	}
	if err := errors.Join(set(a, 20), set(b, 30)); err != nil {
		t.Fatal(err)
	}
	has(20)
	k.kill()
	now = now.Add(time.Second)
	if err := set(a, 21); err == nil {
		t.Error("no error, although the API server is down")
	}
	k.serve()
	if err := errors.Join(set(a, 21), set(b, 30)); err != nil {
		t.Fatal(err)
	}
	has(21)
	k.kill()
	k.serve()
	now = now.Add(2 * leaseLasts)
	if err := errors.Join(set(b, 30), set(a, 22)); err != nil {
		t.Fatal(err)
	}
	has(30)
	if a.standsBy() != "b" || b.standsBy() != "" {
		t.Errorf("a stands by for %q, b for %q", a.standsBy(), b.standsBy())
	}
	now = now.Add(time.Second) // the worker is drained, and leaves
	if err := set(b, 29); err != nil {
		t.Fatal(err)
	}
	has(30)
	if err := set(b, 29); err != nil {
		t.Fatal(err)
	}
	has(29)
}
