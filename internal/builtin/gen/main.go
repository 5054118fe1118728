// Command gen makes the GGUF files that are built into the program, out of
// checkpoints in Hugging Face's layout:
//
//	go run ./internal/builtin/gen -in DIR -out internal/builtin/polly.gguf
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"parley/model/weights"
)

func main() {
	in := flag.String("in", "", "directory with config.json, model.safetensors and tokenizer.json")
	out := flag.String("out", "", "GGUF file to write")
	kind := flag.String("type", "q8_0", "type of the matrices")
	name := flag.String("name", "", "name stored in the file; the directory's by default")
	description := flag.String("description", "a small chat model that comes with Parley; see its model card",
		"description stored in the file")
	license := flag.String("license", "apache-2.0", "licence stored in the file")
	flag.Parse()
	if *name == "" {
		*name = filepath.Base(*in)
	}
	opts := weights.ConvertOptions{Name: *name, Description: *description, License: *license}
	if err := generate(*in, *out, *kind, opts); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(in, out, kind string, opts weights.ConvertOptions) error {
	if in == "" || out == "" {
		return fmt.Errorf("-in and -out must be given")
	}
	var err error
	if opts.Type, err = weights.ParseDType(kind); err != nil {
		return err
	}
	ck, err := weights.Open(in)
	if err != nil {
		return err
	}
	defer ck.Close()
	fallbacks, err := writeFile(ck, out, opts)
	if err != nil {
		return err
	}
	for _, f := range fallbacks {
		fmt.Println(f)
	}
	return check(out)
}

// writeFile writes beside the target and renames, so that a failure leaves the
// old file in place.
func writeFile(ck *weights.Checkpoint, out string, opts weights.ConvertOptions) ([]weights.Fallback, error) {
	f, err := os.CreateTemp(filepath.Dir(out), ".gen-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	fallbacks, err := weights.Convert(ck, f, opts)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o644); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return fallbacks, os.Rename(f.Name(), out)
}

// check opens the written file and says what is in it.
func check(path string) error {
	ck, err := weights.Open(path)
	if err != nil {
		return err
	}
	defer ck.Close()
	if err := ck.CheckTensors(); err != nil {
		return err
	}
	s := weights.Describe(ck)
	fmt.Printf("%s: %s, %d parameters, %d bytes\n", path, s.Architecture, s.Parameters, s.FileBytes)
	return nil
}
