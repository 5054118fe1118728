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
	"os"

	"parley/gateway/safety"
)

func main() {
	data := flag.String("data", "../shared/data/safety", "folder of the safety data")
	corpora := flag.String("corpora", "../shared/data/corpora", "folder of the corpora, of which clean texts are taken")
	sets := flag.String("sets", "", "folder of the public sets that report scores as never trained on, too")
	out := flag.String("out", "gateway/safety/weights.bin", "file that train writes")
	flag.Parse()
	if err := work(flag.Arg(0), *data, *corpora, *sets, *out); err != nil {
		fmt.Fprintln(os.Stderr, "safetytrain:", err)
		os.Exit(1)
	}
}

func work(verb, data, corpora, sets, out string) error {
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
		return report(rows, examples, sets, false)
	case "report":
		return report(rows, examples, sets, true)
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
// a folder, too, if one is named, and cross-validates unless that is not asked for.
func report(rows []*row, examples []*example, sets string, crossing bool) error {
	screen := safety.New()
	held := heldOut(examples, screen)
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
	ok := printReport(os.Stdout, r)
	printBlocked(os.Stdout, held)
	known, unknown, rules := scoreSpans(rows)
	ok = printSpans(os.Stdout, known, unknown, rules) && ok
	if sets != "" {
		printFamilies(os.Stdout, kinds)
	}
	if !ok {
		return errMissed
	}
	return nil
}
