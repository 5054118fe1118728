// Command safetytrain trains and evaluates the safety classifier.
//
//	safetytrain train   writes gateway/safety/weights.bin
//	safetytrain cross   cross-validates only, while something is changed
//	safetytrain report  prints the table of docs/safety.md
//
// All read the data from -data and clean texts from -corpora. A report fails if
// a bar is missed. What is never trained on is looked at by report alone, so
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
	out := flag.String("out", "gateway/safety/weights.bin", "file that train writes")
	flag.Parse()
	if err := work(flag.Arg(0), *data, *corpora, *out); err != nil {
		fmt.Fprintln(os.Stderr, "safetytrain:", err)
		os.Exit(1)
	}
}

func work(verb, data, corpora, out string) error {
	rows, err := load(data)
	if err != nil {
		return err
	}
	clean, err := cleanTexts(corpora, rows)
	if err != nil {
		return err
	}
	switch verb {
	case "train":
		return writeWeights(rows, clean, out)
	case "cross":
		return cross(rows, clean)
	case "report":
		return report(rows, clean)
	}
	return errors.New("say train, cross or report")
}

// allExamples are those of the data and those written by us.
func allExamples(rows, clean []*row) []*example {
	examples := examplesOf(rows)
	written, systems := guards()
	examples = append(examples, underGuard(examples, systems)...)
	examples = append(examples, corpusExamples(clean, systems)...)
	examples = append(examples, broughtOf(rows)...)
	spreadOut(examples)
	examples = append(examples, partsOf(examples)...)
	return append(append(examples, written...), seeds()...)
}

// cross evaluates the classifier without a look at what is never
// trained on: what is changed in it is to be judged by this.
func cross(rows, clean []*row) error {
	examples := allExamples(rows, clean)
	crossed := crossValidate(examples, byGroup)
	r := &result{groups: tried(crossed), families: tried(crossValidate(examples, byFamily)), words: floor(crossed)}
	if !printReport(os.Stdout, r) {
		return errMissed
	}
	return nil
}

var errMissed = errors.New("a bar was missed")

func writeWeights(rows, clean []*row, out string) error {
	examples := allExamples(rows, clean)
	chosen := choose(crossValidate(examples, byGroup))
	fmt.Println("thresholds:", chosen)
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

func report(rows, clean []*row) error {
	examples := allExamples(rows, clean)
	crossed := crossValidate(examples, byGroup)
	held := heldOut(examples, safety.New())
	var zero thresholds
	ok := printReport(os.Stdout, &result{
		groups: tried(crossed), families: tried(crossValidate(examples, byFamily)), held: measure(held, &zero),
		words: floor(append(crossed, held...)),
	})
	known, unknown, rules := scoreSpans(rows)
	if !printSpans(os.Stdout, known, unknown, rules) || !ok {
		return errMissed
	}
	return nil
}
