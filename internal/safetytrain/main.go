// Command safetytrain trains the safety classifier and tells how good it is.
//
//	go run ./internal/safetytrain train   writes gateway/safety/weights.bin
//	go run ./internal/safetytrain report  prints the table of docs/safety.md
//
// Both read the data from -data. The report fails if a bar is missed.
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
	out := flag.String("out", "gateway/safety/weights.bin", "file that train writes")
	flag.Parse()
	if err := work(flag.Arg(0), *data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "safetytrain:", err)
		os.Exit(1)
	}
}

func work(verb, data, out string) error {
	rows, err := load(data)
	if err != nil {
		return err
	}
	switch verb {
	case "train":
		return writeWeights(rows, out)
	case "report":
		return report(rows)
	}
	return errors.New("say train or report")
}

// allExamples are those of the data and those written by us.
func allExamples(rows []*row) []*example {
	examples := examplesOf(rows)
	written, systems := guards()
	examples = append(examples, underGuard(examples, systems)...)
	examples = append(examples, broughtOf(rows)...)
	return append(append(examples, written...), seeds()...)
}

func writeWeights(rows []*row, out string) error {
	examples := allExamples(rows)
	crossed := crossValidate(examples)
	chosen := choose(crossed)
	fmt.Println("thresholds:", chosen)
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

func report(rows []*row) error {
	examples := allExamples(rows)
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
