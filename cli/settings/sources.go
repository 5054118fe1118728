package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// Flags are what the command line says, by the setting's key.
type Flags map[string]*flagValue

// A flagValue collects what the command line says of one setting.
type flagValue struct {
	of    *Setting
	texts []string
}

// String returns the default, which pflag prints in the help.
func (f *flagValue) String() string { return "" }

// Type names the kind of value in the help.
func (f *flagValue) Type() string { return "value" }

// Set checks the text now, so that the error names the flag. A secret is checked later:
// the error would show it.
func (f *flagValue) Set(text string) error {
	if err := f.of.apply(Default(), text); err != nil && !f.of.secret {
		return err
	}
	if !f.of.many {
		f.texts = f.texts[:0]
	}
	f.texts = append(f.texts, text)
	return nil
}

// AddFlags gives the command a flag for each setting of a server, or for those with the
// keys.
func AddFlags(flags *pflag.FlagSet, keys ...string) Flags {
	values := Flags{}
	for i := range List {
		s := &List[i]
		if len(keys) == 0 || slices.Contains(keys, s.Key) {
			values[s.Key] = &flagValue{of: s}
			flags.VarPF(values[s.Key], s.Key, "", s.Help).NoOptDefVal = s.bare
		}
	}
	return values
}

// Gather settles every setting: the flag beats the variable, the variable
// beats the file, the file beats the default.
func Gather(flags Flags, environ func(string) (string, bool), file string) (*Settings, error) {
	return GatherOver(Default(), flags, environ, file)
}

// GatherOver settles every setting over defaults of the caller's.
func GatherOver(out *Settings, flags Flags, environ func(string) (string, bool),
	file string) (*Settings, error) {
	fromFile, err := readFile(file)
	if err != nil {
		return nil, err
	}
	if file != "" {
		if out.Warning, err = checkReadable(file, fromFile); err != nil {
			return nil, err
		}
	}
	var problems []error
	given := map[string]bool{}
	for i := range everySetting {
		s := &everySetting[i]
		texts, where := fromFile[s.Key], "" // already checked, with its line
		if len(texts) > 0 {
			where = file
		}
		if text, ok := environ(s.Variable()); ok && text != "" {
			texts, where = []string{text}, s.Variable()
			if s.many {
				texts = strings.Split(text, ",")
			}
		}
		if f := flags[s.Key]; f != nil && len(f.texts) > 0 {
			texts, where = f.texts, "--"+s.Key
		}
		given[s.Key] = len(texts) > 0
		out.All = append(out.All, s.shown(texts, where))
		for _, text := range texts {
			if err := s.apply(out, text); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", where, err))
			}
		}
	}
	problems = append(problems, out.Collector.check())
	return out, errors.Join(append(problems, checkGivenOnce(given)...)...)
}

// readFile returns the texts that a configuration file gives for each setting,
// by the setting's key. No file is an empty one.
func readFile(path string) (map[string][]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return ParseFile(path, text)
}

// ParseFile reads the file's keys and reports every wrong one with its line.
func ParseFile(path string, text []byte) (map[string][]string, error) {
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, fmt.Errorf("%s is not YAML: %w", path, err)
	}
	out := map[string][]string{}
	var problems []error
	for _, doc := range tree.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		entries, ok := mapping(doc.Body)
		if !ok {
			return nil, fmt.Errorf("%s:%d: expected keys and values such as \"addr: 127.0.0.1:8080\"", path,
				doc.Body.GetToken().Position.Line)
		}
		for _, e := range entries {
			if err := readEntry(out, e); err != nil {
				problems = append(problems, fmt.Errorf("%s:%d: %w", path, e.Key.GetToken().Position.Line, err))
			}
		}
	}
	return out, errors.Join(problems...)
}

// readEntry reads one key of the file.
func readEntry(out map[string][]string, e *ast.MappingValueNode) error {
	key := e.Key.String()
	i := slices.IndexFunc(everySetting, func(s Setting) bool { return s.fileKey() == key })
	if i < 0 {
		return fmt.Errorf("unknown key %q: expected one of %s", key, strings.Join(fileKeys(), ", "))
	}
	s := &everySetting[i]
	if out[s.Key] != nil {
		return fmt.Errorf("key %q occurs twice", key)
	}
	texts, ok := entryTexts(s, e.Value)
	if !ok {
		return fmt.Errorf("key %q: expected %s, found %s", key, s.wants, strings.ToLower(e.Value.Type().String()))
	}
	for _, text := range texts {
		if err := s.apply(Default(), text); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	out[s.Key] = texts
	return nil
}

func fileKeys() (keys []string) {
	for i := range everySetting {
		keys = append(keys, everySetting[i].fileKey())
	}
	return keys
}

// entryTexts returns the texts of a scalar, or where several values are
// allowed of a list of scalars, or of name: value pairs. A value that is a list
// or has pairs itself is as many texts: name=value, or name.inner=value.
func entryTexts(s *Setting, value ast.Node) (texts []string, ok bool) {
	if s.tree {
		return []string{value.String()}, true
	}
	if text, ok := scalar(value); ok {
		return []string{text}, true
	}
	if !s.many {
		return nil, false
	}
	if list, ok := value.(*ast.SequenceNode); ok {
		return listTexts(list)
	}
	entries, ok := mapping(value)
	for _, e := range entries {
		inner, isText := entryTexts(s, e.Value)
		ok = ok && isText
		_, nested := mapping(e.Value)
		for _, text := range inner {
			texts = append(texts, keyText(e.Key)+map[bool]string{true: ".", false: "="}[nested]+text)
		}
	}
	return texts, ok
}

func listTexts(list *ast.SequenceNode) (texts []string, ok bool) {
	for _, v := range list.Values {
		text, ok := scalar(v)
		if !ok {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, true
}

// keyText is a key without the quotes it may be written in.
func keyText(key ast.MapKeyNode) string {
	if text, ok := scalar(key.(ast.Node)); ok {
		return text
	}
	return key.String()
}

func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}
