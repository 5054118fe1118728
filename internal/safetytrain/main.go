// Command safetytrain trains the safety classifier and tells how good it is.
//
//	go run ./internal/safetytrain train   writes gateway/safety/weights.bin
//	go run ./internal/safetytrain report  prints the table of docs/safety.md
//
// Both read the data from -data and clean texts from -corpora. The report fails if a bar is missed.
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
	case "report":
		return report(rows, clean)
	}
	return errors.New("say train or report")
}

// allExamples are those of the data and those written by us.
func allExamples(rows, clean []*row) []*example {
	examples := examplesOf(rows)
	written, systems := guards()
	examples = append(examples, underGuard(examples, systems)...)
	examples = append(examples, corpusExamples(clean, systems)...)
	examples = append(examples, broughtOf(rows)...)
	spreadOut(examples)
	return append(append(examples, written...), seeds()...)
}

func writeWeights(rows, clean []*row, out string) error {
	examples := allExamples(rows, clean)
	crossed := crossValidate(examples)
	chosen := choose(crossed)
	fmt.Println("thresholds:", chosen)
	printReport(os.Stdout, measure(crossed, &chosen), measured{}, floor(crossed))
	l := train(examples, func(e *example) bool { return !e.held() }, plan)
	tags := trainTags(taggedOf(rows), func(r *row) bool { return !r.heldText() })
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := safety.WriteWeights(f, safety.NewModel(l.weights, l.bias, chosen), safety.NewTagger(tags.weights, tags.follow)); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func report(rows, clean []*row) error {
	examples := allExamples(rows, clean)
	crossed := crossValidate(examples)
	chosen := choose(crossed)
	held := heldOut(examples, safety.New())
	var zero thresholds
	ok := printReport(os.Stdout, measure(crossed, &chosen), measure(held, &zero), floor(append(crossed, held...)))
	known, unknown, rules := scoreSpans(rows)
	ok = printSpans(os.Stdout, known, unknown, rules) && ok
	if !ok {
		return errors.New("a bar was missed")
	}
	return nil
}
