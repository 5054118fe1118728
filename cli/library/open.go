package library

import (
	"errors"
	"fmt"
	"os"

	"parley/cli/settings"
	"parley/internal/builtin"
	"parley/model/weights"
)

// Open opens a path, or a model that is built in or in the model folder by its name.
func Open(path string) (*weights.Checkpoint, error) {
	s, err := settings.Gather(nil, os.LookupEnv, os.Getenv("PARLEY_CONFIG"))
	if err != nil {
		return nil, err
	}
	ck, _, err := OpenNamed(s, path)
	return ck, err
}

// OpenNamed opens a path, or a model that is built in or in the model folder by its name.
// The name is empty for a path.
func OpenNamed(s *settings.Settings, path string) (ck *weights.Checkpoint, name string, err error) {
	ck, err = weights.Open(path)
	if !errors.Is(err, os.ErrNotExist) {
		return ck, "", err
	}
	if m, ok := builtin.Find(path); ok {
		ck, err = m.Open()
		return ck, path, err
	}
	m, unknown := s.ModelFolder().Get(path)
	if unknown != nil {
		return nil, "", fmt.Errorf("%w: give the path of a GGUF file or of a directory with config.json, "+
			"or the name of a built-in model or of one in the model folder (parley list)", err)
	}
	ck, err = weights.Open(m.Path)
	return ck, m.Name, err
}
