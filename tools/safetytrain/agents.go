package main

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"parley/gateway/safety"
)

//go:embed agents.txt
var agentsText string

// agentsSource is the source of what coding agents send. The documented policy
// must not block any of it.
const agentsSource = "agents"

// documented is the score, and documentedZ the logit, at which the policy of
// docs/safety.md blocks.
const documented = 0.7

var documentedZ = float32(math.Log(documented / (1 - documented)))

// agentsPerFrame bounds how many texts a frame gives.
const agentsPerFrame = 16

// An agentFrame is what an agent writes around the words of its user.
type agentFrame struct {
	family, role, text string
}

// readAgents returns the frames of agents.txt and the values of their braces.
func readAgents(text string) (frames []agentFrame, values map[string][]string) {
	values = map[string][]string{}
	for section := range strings.SplitSeq("\n"+text, "\n= ") {
		head, body, _ := strings.Cut(section, "\n")
		name, role, ok := strings.Cut(head, " ")
		if !ok || strings.HasPrefix(strings.TrimSpace(section), "#") {
			continue
		}
		for block := range strings.SplitSeq(body, "\n---\n") {
			block = strings.Trim(block, "\n")
			switch {
			case block == "":
			case name == "values":
				values[role] = append(values[role], block)
			default:
				frames = append(frames, agentFrame{name, role, block})
			}
		}
	}
	return frames, values
}

// agentRows are the texts of the frames. Those with the same contents are on one
// side of every split, so that a fifth of the contents is never trained on; the
// families are the agents.
func agentRows() (list []*row, systems []string) {
	frames, values := readAgents(agentsText)
	for _, f := range frames {
		texts := f.fill(values)
		slices.SortFunc(texts, func(a, b *row) int {
			if xxhash.Sum64String(a.Text) < xxhash.Sum64String(b.Text) {
				return -1
			}
			return 1
		})
		list = append(list, texts[:min(len(texts), agentsPerFrame)]...)
	}
	return list, values["system"]
}

// fill puts values into the braces of a frame: each of the first, with others of
// the further ones.
func (f *agentFrame) fill(values map[string][]string) (list []*row) {
	most := 1
	for name, of := range values {
		if strings.Contains(f.text, "{"+name+"}") {
			most = max(most, len(of))
		}
	}
	for i := range most {
		text, contents := f.text, ""
		for _, name := range []string{"ask", "files", "output", "rules"} {
			if of := values[name]; strings.Contains(text, "{"+name+"}") {
				value := of[(i*7+len(name))%len(of)]
				text = strings.ReplaceAll(text, "{"+name+"}", value)
				contents += name + value
			}
		}
		list = append(list, &row{
			Text:   text,
			Cats:   []string{f.role, f.family},
			Source: agentsSource,
			group:  xxhash.Sum64String(fmt.Sprint("agents", contents)),
		})
	}
	return list
}

// What a text of an agent counts beside a row of the data, and after a system
// prompt: users of other applications do ask for what a prompt forbids.
const (
	agentWeight       = 1.5
	agentSystemWeight = 0.7
)

// agentExamples are clean in every way. Tool results are judged as what a
// tool brings, too, prompts after a system prompt.
func agentExamples() (list []*example) {
	rows, systems := agentRows()
	for i, r := range rows {
		e := &example{row: r, sample: safety.Extract(r.Text, ""), target: clean(), weight: agentWeight}
		again := *e
		if r.has("tool") {
			again.target, again.brought = orderTarget(0), true
		} else {
			again.sample = safety.Extract(r.Text, systems[i%len(systems)])
			again.weight = agentSystemWeight
		}
		list = append(list, e, &again)
	}
	return list
}
