package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"parley/gateway/safety"
)

// corpusWeight is what a text of the corpora counts beside a row of the data.
const corpusWeight = 0.7

// A corpus is a file of texts in which nothing is wrong. Of each kind of its
// texts the few with the least hashes are taken.
type corpus struct {
	file string
	// texts returns the texts of a line and which kind they are of.
	texts func(line *corpusLine) (kind string, texts []string)
	// perKind is how many texts are taken of a kind, most how long they may be.
	perKind, most int
}

// A corpusLine is a line of any of the files.
type corpusLine struct {
	Task, Input, Instruction, Question, Text string
}

var corpora = []corpus{
	{"instructions_tasks.jsonl.xz", func(l *corpusLine) (string, []string) {
		return l.Task, []string{l.Instruction}
	}, 1, 1500},
	{"instructions.jsonl.xz", func(l *corpusLine) (string, []string) { return l.Task, []string{l.Input} }, 5, 700},
	{"gsm8k_train.jsonl.xz", func(l *corpusLine) (string, []string) { return "", []string{l.Question} }, 700, 1000},
	{"fairytale_qa.jsonl.xz", func(l *corpusLine) (string, []string) { return "", []string{l.Question} }, 200, 300},
	{"fairytale_stories.jsonl.xz", func(l *corpusLine) (string, []string) { return "", pieces(l.Text, 500) }, 250, 500},
}

// delicate tasks quote what is wrong, or may.
var delicate = []string{"bias", "ethic", "scruples", "stereo", "hate", "toxic", "civil", "offens"}

// cleanTexts reads the corpora in a folder. Texts that are nearly one of rows
// are left out, so that nothing is trained on that is scored.
func cleanTexts(dir string, rows []*row) ([]*row, error) {
	scored := map[uint64]bool{}
	for _, r := range rows {
		for _, s := range signsOf(r.Text) {
			scored[s] = true
		}
	}
	var list []*row
	for _, c := range corpora {
		texts, err := c.read(filepath.Join(dir, c.file))
		if err != nil {
			return nil, err
		}
		for _, t := range texts {
			if !nearly(t, scored) {
				list = append(list, &row{Text: t, Source: "seed", group: 1})
			}
		}
	}
	return list, nil
}

func nearly(text string, scored map[uint64]bool) bool {
	signs := signsOf(text)
	n := 0
	for _, s := range signs {
		if scored[s] {
			n++
		}
	}
	return float64(n) >= sharedMin*float64(len(signs))
}

func (c *corpus) read(name string) ([]string, error) {
	plain, err := exec.Command("xz", "-dc", name).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: say with -corpora where the corpora are; reading them needs the command xz",
			name, err)
	}
	kinds := map[string][]string{}
	var names []string
	for line := range bytes.Lines(plain) {
		var l corpusLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		kind, texts := c.texts(&l)
		if slices.ContainsFunc(delicate, func(d string) bool { return strings.Contains(kind, d) }) {
			continue
		}
		if kinds[kind] == nil {
			names = append(names, kind)
		}
		kinds[kind] = append(kinds[kind], texts...)
	}
	var list []string
	for _, kind := range names {
		list = append(list, c.few(kinds[kind], kind != "")...)
	}
	return list, nil
}

// few returns the texts with the least hashes, without those that have a word
// of the keyword list if they are of a kind that strangers wrote.
func (c *corpus) few(texts []string, strangers bool) (list []string) {
	slices.SortFunc(texts, func(a, b string) int {
		if xxhash.Sum64String(a) < xxhash.Sum64String(b) {
			return -1
		}
		return 1
	})
	for _, t := range slices.Compact(texts) {
		if len(list) == c.perKind {
			break
		}
		if t != "" && len(t) <= c.most && !(strangers && safety.Blunt(t)) {
			list = append(list, t)
		}
	}
	return list
}

// pieces cuts a text at ends of sentences into pieces that are at most that long.
func pieces(text string, most int) (list []string) {
	for len(text) > most {
		cut := strings.LastIndexAny(text[:most], ".?!")
		if cut < most/2 {
			return list
		}
		list, text = append(list, text[:cut+1]), strings.TrimSpace(text[cut+1:])
	}
	return list
}

// corpusExamples are clean examples of the corpora, a few of them after a
// system prompt that forbids something.
func corpusExamples(rows []*row, systems []string) (list []*example) {
	for i, r := range rows {
		e := &example{row: r, target: clean(), weight: corpusWeight, seed: true}
		if i%5 == 0 {
			r.System = systems[i/5%len(systems)]
		}
		e.sample = safety.Extract(r.Text, r.System)
		list = append(list, e)
	}
	return list
}
