package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"

	"parley/cli/settings"
	"parley/internal/testkit"
)

// An object is a document of a YAML file.
type yamlObject map[string]any

// at returns what lies under a path of keys; a number is a place in a list.
func (o yamlObject) at(path ...any) any {
	var v any = map[string]any(o)
	for _, key := range path {
		switch key := key.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

func (o yamlObject) text(path ...any) string {
	text, _ := o.at(path...).(string)
	return text
}

func readYAML(t *testing.T, name string, text []byte) (objects []yamlObject) {
	t.Helper()
	for part := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		o := yamlObject{}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, part)
		}
		if len(o) > 0 {
			objects = append(objects, o)
		}
	}
	return objects
}

func readExample(t *testing.T, elem ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{testkit.Root(), "examples"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// renderChart renders the chart with the part of Helm's language that it uses: of
// its functions include, nindent, toYaml, quote, add and dict, and of its objects
// Values and Release. [TestHelmRendersTheChart] compares it with Helm.
func renderChart(t *testing.T, release string, change func(values yamlObject)) (objects []yamlObject) {
	t.Helper()
	values := readYAML(t, "values.yaml", readExample(t, "helm", "parley", "values.yaml"))[0]
	change(values)
	chart := template.New("chart").Option("missingkey=error")
	chart.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := chart.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"nindent": func(n int, text string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n",
				"\n"+strings.Repeat(" ", n))
		},
		"toYaml": func(v any) (string, error) { out, err := yaml.Marshal(v); return string(out), err },
		"quote":  func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"add":    func(a, b any) int { return number(a) + number(b) },
		"dict": func(pairs ...any) map[string]any {
			out := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				out[pairs[i].(string)] = pairs[i+1]
			}
			return out
		},
	})
	files := []string{"_names.tpl", "gateway.yaml", "workers.yaml", "scale.yaml"}
	for _, name := range files {
		if _, err := chart.New(name).Parse(string(readExample(t, "helm", "parley", "templates", name))); err != nil {
			t.Fatal(err)
		}
	}
	data := map[string]any{"Values": map[string]any(values),
		"Release": map[string]any{"Name": release, "Namespace": "llm", "Service": "Helm"}}
	for _, name := range files[1:] {
		var out bytes.Buffer
		if err := chart.ExecuteTemplate(&out, name, data); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, readYAML(t, name, out.Bytes())...)
	}
	return objects
}

func number(v any) int {
	n, _ := reflect.ValueOf(v).Convert(reflect.TypeFor[int]()).Interface().(int)
	return n
}

// checkManifests looks for what the API server and the pods would complain about.
func checkManifests(t *testing.T, what string, objects []yamlObject) {
	t.Helper()
	names := map[string]yamlObject{}
	for _, o := range objects {
		kind, name := o.text("kind"), o.text("metadata", "name")
		if kind == "" || name == "" || o.text("apiVersion") == "" || names[kind+"/"+name] != nil {
			t.Errorf("%s: %s %q is nameless, or there twice", what, kind, name)
		}
		names[kind+"/"+name] = o
	}
	for _, o := range objects {
		switch o.text("kind") {
		case "Deployment":
			checkDeployment(t, what, o, names)
		case "Service":
			checkService(t, what, o, objects)
		case "RoleBinding":
			if names["Role/"+o.text("roleRef", "name")] == nil ||
				names["ServiceAccount/"+o.text("subjects", 0, "name")] == nil {
				t.Errorf("%s: the role binding binds what is not there", what)
			}
		case "ConfigMap":
			if _, err := settings.ParseFile("parley.yaml", []byte(o.text("data", "parley.yaml"))); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func checkDeployment(t *testing.T, what string, o yamlObject, names map[string]yamlObject) {
	t.Helper()
	name := o.text("metadata", "name")
	if labels := o.at("spec", "template", "metadata", "labels"); labels == nil ||
		!reflect.DeepEqual(labels, o.at("spec", "selector", "matchLabels")) {
		t.Errorf("%s: %s selects other pods than its own", what, name)
	}
	pod := yamlObject(o.at("spec", "template", "spec").(map[string]any))
	var volumes []string
	for i := 0; pod.text("volumes", i, "name") != ""; i++ {
		volumes = append(volumes, pod.text("volumes", i, "name"))
		if config := pod.text("volumes", i, "configMap", "name"); config != "" && names["ConfigMap/"+config] == nil {
			t.Errorf("%s: %s mounts the ConfigMap %s, which is not there", what, name, config)
		}
	}
	for i := 0; pod.text("containers", 0, "volumeMounts", i, "name") != ""; i++ {
		if mounted := pod.text("containers", 0, "volumeMounts", i, "name"); !slices.Contains(volumes, mounted) {
			t.Errorf("%s: %s mounts %s, which is not there", what, name, mounted)
		}
	}
	if account := pod.text("serviceAccountName"); account != "" && names["ServiceAccount/"+account] == nil {
		t.Errorf("%s: %s runs as %s, which is not there", what, name, account)
	}
	for _, probe := range []string{"readinessProbe"} {
		if pod.at("containers", 0, "ports") == nil {
			break // it is not asked anything
		}
		if pod.text("containers", 0, probe, "httpGet", "path") == "" ||
			pod.text("containers", 0, probe, "httpGet", "port") != pod.text("containers", 0, "ports", 0, "name") {
			t.Errorf("%s: %s of %s asks nobody", what, probe, name)
		}
	}
}

func checkService(t *testing.T, what string, o yamlObject, objects []yamlObject) {
	t.Helper()
	for _, d := range objects {
		if d.text("kind") != "Deployment" ||
			!reflect.DeepEqual(d.at("spec", "template", "metadata", "labels"), o.at("spec", "selector")) {
			continue
		}
		for i := 0; o.text("spec", "ports", i, "name") != ""; i++ {
			if got := d.text("spec", "template", "spec", "containers", 0, "ports", i, "name"); got != o.text("spec",
				"ports", i, "targetPort") {
				t.Errorf("%s: port %d of service %s goes to %q", what, i, o.text("metadata", "name"), got)
			}
		}
		return
	}
	t.Errorf("%s: service %s selects no pods", what, o.text("metadata", "name"))
}

// TestKubernetesExamples checks the manifests, and the chart as it is and as it can
// be changed.
func TestKubernetesExamples(t *testing.T) {
	checkManifests(t, "manifests", append(readYAML(t, "parley.yaml", readExample(t, "kubernetes", "parley.yaml")),
		readYAML(t, "vllm.yaml", readExample(t, "kubernetes", "vllm.yaml"))...))
	plain := renderChart(t, "prod", func(yamlObject) {})
	checkManifests(t, "chart", plain)
	ours := renderChart(t, "own", func(v yamlObject) {
		v["workers"].(map[string]any)["kind"], v["workers"].(map[string]any)["image"] = "parley", "parley:latest"
		v["workers"].(map[string]any)["extraArgs"] = []any{"--threads=8"}
	})
	checkManifests(t, "chart with Parley workers", ours)
	if args := fmt.Sprint(ours[len(ours)-3].at("spec", "template", "spec", "containers", 0,
		"args")); args != "[worker --model=qwen=/model --addr=0.0.0.0:8000 --threads=8]" {
		t.Errorf("Parley workers are started with %s", args)
	}
	for _, o := range ours { // beyond loopback a worker does not start without it
		if env := fmt.Sprint(o.at("spec", "template", "spec", "containers", 0, "env")); o.text(
			"kind") == "Deployment" && !strings.Contains(env, "PARLEY_WORKER_KEY") {
			t.Errorf("%s has no key of the workers: %s", o.text("metadata", "name"), env)
		}
	}
}

// TestChartScales renders the chart with its autoscaler: its command is one that Parley has, it
// may change the workers' deployment and its lease, and the chart leaves their number to it.
func TestChartScales(t *testing.T) {
	objects := renderChart(t, "prod", func(v yamlObject) { v["scale"].(map[string]any)["max"] = 8 })
	checkManifests(t, "chart with an autoscaler", objects)
	found := map[string]yamlObject{}
	for _, o := range objects {
		found[o.text("kind")+"/"+o.text("metadata", "name")] = o
	}
	workers, scaler, role := found["Deployment/prod-workers"], found["Deployment/prod-scale"], found["Role/prod-scale"]
	if workers == nil || scaler == nil || role == nil {
		t.Fatalf("there are %v", slices.Sorted(maps.Keys(found)))
	}
	if n := workers.at("spec", "replicas"); n != nil {
		t.Errorf("the chart sets %v replicas, too", n)
	}
	args := fmt.Sprint(scaler.at("spec", "template", "spec", "containers", 0, "args"))
	if want := "[fleet scale --url=http://prod-gateways:8080 --all-addresses --kubernetes=deployment/prod-workers " +
		"--min=1 --max=8]"; args != want {
		t.Errorf("the scaler is started with %s, want %s", args, want)
	}
	help := command(t, "", "fleet", "scale", "--help")
	for _, flag := range []string{"--url", "--all-addresses", "--kubernetes", "--min", "--max"} {
		if !strings.Contains(help, flag+" ") {
			t.Errorf("parley fleet scale has no %s", flag)
		}
	}
	if rules := fmt.Sprint(role.at("rules")); !strings.Contains(rules, "[prod-workers]") ||
		!strings.Contains(rules, "[parley-scale-deployment-prod-workers]") {
		t.Errorf("the scaler may %s", rules)
	}
}

// TestHelmRendersTheChart has Helm itself, which PARLEY_HELM names, lint and render
// the chart, and wants what the subset of it here renders: so the checks above
// hold for what people get.
func TestHelmRendersTheChart(t *testing.T) {
	helm := os.Getenv("PARLEY_HELM")
	if helm == "" {
		if helm, _ = exec.LookPath("helm"); helm == "" {
			t.Skip("NOT RUN: the chart rendered by Helm itself: make helm")
		}
	}
	chart := filepath.Join(testkit.Root(), "examples", "helm", "parley")
	if out, err := exec.Command(helm, "lint", "--strict", chart).CombinedOutput(); err != nil {
		t.Errorf("helm lint: %s", out)
	}
	for release, sets := range map[string][]string{"prod": nil,
		"own":     {"--set", "workers.kind=parley,workers.image=parley:latest"},
		"scaling": {"--set", "scale.max=8"}} {
		out, err := exec.Command(helm,
			append([]string{"template", release, chart, "--namespace", "llm"}, sets...)...).Output()
		if err != nil {
			t.Fatalf("%s: %v", release, err)
		}
		theirs := readYAML(t, "helm", out)
		checkManifests(t, "helm template "+release, theirs)
		ours := renderChart(t, release, func(v yamlObject) {
			switch release {
			case "scaling":
				v["scale"].(map[string]any)["max"] = 8
			case "own":
				workers := v["workers"].(map[string]any)
				workers["kind"], workers["image"] = "parley", "parley:latest"
			}
		})
		for _, o := range ours {
			if !slices.ContainsFunc(theirs, func(x yamlObject) bool { return reflect.DeepEqual(x, o) }) {
				t.Errorf("%s: Helm renders %s %s otherwise than the test does", release, o.text("kind"),
					o.text("metadata", "name"))
			}
		}
		if len(ours) != len(theirs) {
			t.Errorf("%s: Helm renders %d objects, the test %d", release, len(theirs), len(ours))
		}
	}
}

// TestComposeExample checks that services, volumes and files are those it names.
func TestComposeExample(t *testing.T) {
	o := readYAML(t, "compose.yaml", readExample(t, "compose", "compose.yaml"))[0]
	services := o.at("services").(map[string]any)
	for name := range services {
		depends, _ := o.at("services", name, "depends_on").(map[string]any)
		for other := range depends {
			if services[other] == nil || o.at("services", other, "healthcheck") == nil {
				t.Errorf("%s waits for %s, which is not there or does not say when it is well", name, other)
			}
		}
	}
	for _, want := range []string{"postgres", "valkey", "vllm", "gateway"} {
		if services[want] == nil {
			t.Errorf("there is no %s", want)
		}
	}
	if _, err := os.Stat(
		filepath.Join(testkit.Root(), o.text("services", "gateway", "build", "dockerfile"))); err != nil {
		t.Error(err)
	}
	s, err := settings.Gather(nil, func(string) (string, bool) { return "", false },
		filepath.Join(testkit.Root(), "examples", "compose", "parley.yaml"))
	if err != nil || s.Pools[0].Workers[0].URL != "http://vllm:8000" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestExamplesTellTheFirstKey wants each example whose gateway other machines can
// reach to tell how its first key is made, without which it does not start; and
// gateways side by side to share what is spent of limits.
func TestExamplesTellTheFirstKey(t *testing.T) {
	for told, shared := range map[string]string{"docker/Dockerfile": "",
		"compose/compose.yaml": "compose/compose.yaml", "kubernetes/parley.yaml": "kubernetes/parley.yaml",
		"helm/parley/templates/NOTES.txt": "helm/parley/templates/gateway.yaml"} {
		if text := readExample(t, told); !bytes.Contains(text, []byte("keys create --admin --name me")) {
			t.Errorf("%s does not say how the first key is made", told)
		}
		if shared == "" {
			continue
		}
		text := string(readExample(t, shared))
		for _, variable := range []string{"PARLEY_STORE", "PARLEY_REDIS", "PARLEY_FLEET_OPERATE_TOKEN",
			"PARLEY_SALT_KEY"} {
			known := slices.ContainsFunc(settings.List,
				func(s settings.Setting) bool { return s.Variable() == variable })
			if !known || !strings.Contains(text, variable) {
				t.Errorf("%s does not set %s, or there is no such setting", shared, variable)
			}
		}
	}
}

// TestDockerfile checks that what ends in the image needs nothing else there.
func TestDockerfile(t *testing.T) {
	build, final, ok := strings.Cut(string(readExample(t, "docker", "Dockerfile")), "\nFROM scratch\n")
	if !ok || !strings.Contains(build, "CGO_ENABLED=0 go build") {
		t.Fatal("the image is not made from scratch with a static program")
	}
	for line := range strings.Lines(final) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "RUN" || (word == "ENTRYPOINT" || word == "CMD") && !strings.HasPrefix(rest, "[") {
			t.Errorf("%q needs a shell, and there is none", line)
		}
		if from, found := strings.CutPrefix(rest, "--from=build "); word == "COPY" && found {
			fields := strings.Fields(from)
			if path := fields[len(fields)-2]; path != "/etc/ssl/certs/ca-certificates.crt" && !strings.Contains(build,
				path) {
				t.Errorf("%s is copied and was not built", path)
			}
		}
	}
}
