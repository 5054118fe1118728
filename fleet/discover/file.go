package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/goccy/go-yaml"
)

// fileBytesMax bounds the file of a [File].
const fileBytesMax = 4 << 20

// File reports the places that a YAML or JSON file lists, and again when it changes: as a list of
// URLs, or of places with name, url, kind and labels.
func File(path string, every time.Duration, log *slog.Logger) Source {
	return func(ctx context.Context, tell func([]Address)) {
		poll(ctx, every, orDefault(log), func(context.Context) ([]Address, error) { return readFile(path) }, tell)
	}
}

func readFile(path string) ([]Address, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(data) > fileBytesMax {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, fileBytesMax)
	}
	places, err := ParseAddresses(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return places, nil
}

// ParseAddresses reads a list of places. An empty file is one that is being
// written; a list without members is [].
func ParseAddresses(data []byte) ([]Address, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the list of workers is empty: write [] for none")
	}
	var list []fileEntry
	if err := yaml.UnmarshalWithOptions(data, &list, yaml.Strict()); err != nil {
		return nil,
			fmt.Errorf(
				"not a list of URLs, or of workers with name, url, kind and labels (set model, models, key and "+
					"events in the pool, next to the file's name): %w", err)
	}
	places := make([]Address, len(list))
	for i, l := range list {
		places[i] = Address(l)
	}
	return complete(places)
}

// A fileEntry place may be just a URL.
type fileEntry Address

// UnmarshalYAML reads either form.
func (l *fileEntry) UnmarshalYAML(decode func(any) error) error {
	if err := decode(&l.URL); err == nil {
		return nil
	}
	var p struct {
		Name   string            `yaml:"name"`
		URL    string            `yaml:"url"`
		Kind   string            `yaml:"kind"`
		Labels map[string]string `yaml:"labels"`
	}
	if err := decode(&p); err != nil {
		return err
	}
	*l = fileEntry{Name: p.Name, URL: p.URL, Kind: p.Kind, Labels: p.Labels}
	return nil
}
