package settings

import (
	"fmt"
	"strings"
)

// A Setting is one thing that can be set, by whatever way.
type Setting struct {
	// Key is the flag's name. The variable is PARLEY_ and the key in capitals,
	// the file's key has underscores.
	Key   string
	wants string // completes "expected …"
	Help  string
	many  bool // may be given several times
	// bare is what the flag means without a value; empty if it needs one.
	bare string
	tree bool // is any YAML in the file; its text is YAML, too
	// secret values are in no error, and can be read from a file by the flag
	// secretFile, or by key-file if that is empty. from is the setting that such a flag
	// reads. holds reports whether a text has a secret in it, where not all have.
	secret     bool
	secretFile string
	from       *Setting
	holds      func(text string) bool
	set        func(s *Settings, text string) error
}

// Variable returns the name of the environment variable.
func (s *Setting) Variable() string {
	return "PARLEY_" + strings.ToUpper(strings.ReplaceAll(s.Key, "-", "_"))
}

func (s *Setting) fileKey() string { return strings.ReplaceAll(s.Key, "-", "_") }

// apply sets the value that text spells, or says what was expected.
func (s *Setting) apply(to *Settings, text string) error {
	err := s.set(to, text)
	switch {
	case err != nil && s.tree:
		return fmt.Errorf("expected %s: %w", s.wants, err)
	case err != nil && s.from != nil:
		return err
	case err != nil && s.secret:
		return fmt.Errorf("expected %s", s.wants)
	case err != nil:
		return fmt.Errorf("expected %s, got %q", s.wants, text)
	}
	return nil
}
