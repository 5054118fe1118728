// Command safetytrain trains and evaluates the safety classifier.
//
//	safetytrain train   writes gateway/safety/weights.bin
//	safetytrain cross   cross-validates only, while something is changed
//	safetytrain held    scores what is never trained on only, in seconds
//	safetytrain report  prints the table of docs/safety.md
//
// All read the data from -data and clean texts from -corpora, and are run in the
// root of the repository. A report fails if a bar is missed. What is never trained on is looked at by report alone, so
// that nothing is chosen by it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"parley/gateway/safety"
)

func main() {
	data := flag.String("data", "../shared/data/safety", "folder of the safety data")
	corpora := flag.String("corpora", "../shared/data/corpora", "folder of the corpora, of which clean texts are taken")
	sets := flag.String("sets", "", "folder of the public sets that report scores as never trained on, too")
	out := flag.String("out", "gateway/safety/weights.bin", "file that train writes")
	docs := flag.String("docs", "", "file in which report rewrites the tables between its marks")
	flag.Parse()
	if err := work(flag.Arg(0), *data, *corpora, *sets, *out, *docs); err != nil {
		fmt.Fprintln(os.Stderr, "safetytrain:", err)
		os.Exit(1)
	}
}

func work(verb, data, corpora, sets, out, docs string) error {
	rows, err := load(data)
	if err != nil {
		return err
	}
	clean, err := cleanTexts(corpora, rows)
	if err != nil {
		return err
	}
	files, err := workspaceExamples()
	if err != nil {
		return err
	}
	examples := allExamples(rows, clean, files)
	switch verb {
	case "train":
		return writeWeights(rows, examples, out)
	case "cross":
		return cross(examples)
	case "held":
		return report(os.Stdout, rows, examples, sets, false)
	case "report":
		var tables strings.Builder
		missed := report(io.MultiWriter(os.Stdout, &tables), rows, examples, sets, true)
		if docs != "" && (missed == nil || errors.Is(missed, errMissed)) {
			return errors.Join(missed, rewriteTables(docs, tables.String()))
		}
		return missed
	}
	return errors.New("say train, cross, held or report")
}

// allExamples are those of the data and those written by us.
func allExamples(rows, clean []*row, shown []*example) []*example {
	examples := examplesOf(rows)
	written, systems := guards()
	examples = append(examples, underGuard(examples, systems)...)
	examples = append(examples, corpusExamples(clean, systems)...)
	examples = append(examples, broughtOf(rows)...)
	examples = append(examples, shown...)
	examples = append(examples, agentExamples()...)
	spreadOut(examples)
	examples = append(examples, partsOf(examples)...)
	examples = append(examples, familyExamples()...)
	return append(append(examples, written...), seeds()...)
}

// cross evaluates the classifier without a look at what is never
// trained on: what is changed in it is to be judged by this.
func cross(examples []*example) error {
	crossed := crossValidate(examples, byGroup)
	r := &result{groups: tried(crossed), families: tried(crossValidate(examples, byFamily)), words: floor(crossed)}
	if !printReport(os.Stdout, r) {
		return errMissed
	}
	return nil
}

var errMissed = errors.New("a bar was missed")

func writeWeights(rows []*row, examples []*example, out string) error {
	crossed := crossValidate(examples, byGroup)
	chosen := choose(crossed)
	fmt.Println("thresholds:", chosen)
	printReport(os.Stdout, &result{groups: tried(crossed)})
	l := train(examples, func(e *example) bool { return !e.held() }, plan)
	tags := trainTags(taggedOf(rows), func(r *row) bool { return !r.heldText() })
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := safety.WriteWeights(f, safety.NewModel(l.weights, l.bias, chosen),
		safety.NewTagger(tags.weights, tags.follow)); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// report evaluates the weights that are part of the binary, on the public sets in
// a folder, too, if one is named, and cross-validates unless that is not asked for. The tables go to w.
func report(w io.Writer, rows []*row, examples []*example, sets string, crossing bool) error {
	screen := safety.New()
	held := heldOut(examples, screen)
	printBlocked(os.Stdout, held)
	var zero thresholds
	r := &result{held: measure(held, &zero), words: floor(held)}
	if crossing {
		crossed := crossValidate(examples, byGroup)
		r.groups, r.families = tried(crossed), tried(crossValidate(examples, byFamily))
		r.words = floor(append(crossed, held...))
	}
	var kinds measured
	if sets != "" {
		public, err := readSets(sets, rows)
		if err != nil {
			return err
		}
		var all measured
		all, kinds = scoreSets(public, screen)
		r.held.addAll(all)
	}
	ok := printReport(w, r)
	known, unknown, rules := scoreSpans(rows)
	ok = printSpans(w, known, unknown, rules) && ok
	printFamilies(w, kinds, r.groups.all, r.held)
	if !ok {
		return errMissed
	}
	return nil
}

// The marks in a document between which its tables stand.
const (
	tablesBegin = "<!-- make safety-report writes from here -->\n"
	tablesEnd   = "<!-- to here -->\n"
)

// rewriteTables puts tables between the marks of a document.
func rewriteTables(name, tables string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(text), tablesBegin)
	_, after, ended := strings.Cut(rest, tablesEnd)
	if !begun || !ended {
		return fmt.Errorf("%s has no line %q before a line %q", name, strings.TrimSpace(tablesBegin), strings.TrimSpace(tablesEnd))
	}
	return os.WriteFile(name, []byte(before+tablesBegin+"\n"+tables+"\n"+tablesEnd+after), 0o644)
}
