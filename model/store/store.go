package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"parley/model/hub"
)

// A Store is a folder of models. The zero value has none.
type Store struct {
	// Dir is the folder. It is made when the first model comes.
	Dir string
}

// A Model is one that is in the folder.
type Model struct {
	// Name is what people and clients call it.
	Name string `json:"name"`
	// Source is where it came from, as `parley pull` takes it, and Commit the version;
	// both are empty for files that people put there themselves.
	Source string `json:"source,omitempty"`
	Commit string `json:"commit,omitempty"`
	// License is its short name as the source says, empty if it says none.
	License string `json:"license,omitempty"`
	// Open is the file that is opened, relative to its directory; empty for the directory.
	Open string `json:"open,omitempty"`
	// Files are what it consists of, and Bytes what they take together.
	Files []hub.File `json:"files,omitempty"`
	Bytes int64      `json:"bytes"`
	// Added is when it came.
	Added time.Time `json:"added"`
	// Path is what is opened.
	Path string `json:"path"`
}

const (
	manifestName = "manifest.json"
	partialName  = ".partial"
	removedName  = ".removed"
)

// modelName is what a name may be: a base and, after a colon, a tag.
var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,79}(:[A-Za-z0-9][A-Za-z0-9._-]{0,39})?$`)

// CheckName refuses names that could not be a folder's on every system.
func CheckName(name string) error {
	if !modelName.MatchString(name) || strings.Contains(name, "..") || strings.HasSuffix(name, ".") {
		return fmt.Errorf("%q is not a name for a model: use letters, digits, dots, dashes and underscores, "+
			"and a tag after a colon if you like, such as qwen3:0.6b", name)
	}
	return nil
}

// folder returns the directory of a model. Colons are not allowed in file names
// everywhere.
func (s *Store) folder(name string) string {
	return filepath.Join(s.Dir, strings.ReplaceAll(name, ":", "+"))
}

// nameOf is the name that a directory or file of the folder stands for.
func nameOf(entry string) string { return strings.Replace(entry, "+", ":", 1) }

// List returns the models in the order of their names. What cannot be read is left out:
// it may be on its way in or out.
func (s *Store) List() ([]Model, error) {
	if s.Dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var models []Model
	for _, e := range entries {
		if m, ok := s.read(e.Name()); ok {
			models = append(models, m)
		}
	}
	sort.Slice(models, func(i, j int) bool { return models[i].Name < models[j].Name })
	return slices.CompactFunc(models, func(a, b Model) bool { return a.Name == b.Name }), err
}

// read returns the model of an entry of the folder.
func (s *Store) read(entry string) (Model, bool) {
	path := filepath.Join(s.Dir, entry)
	info, err := os.Stat(path)
	if err != nil || strings.HasPrefix(entry, ".") {
		return Model{}, false
	}
	if !info.IsDir() {
		base, isGGUF := strings.CutSuffix(entry, ".gguf")
		m := Model{Name: nameOf(base), Bytes: info.Size(), Added: info.ModTime(), Path: path}
		return m, isGGUF && CheckName(m.Name) == nil
	}
	if m, err := readManifest(path); err == nil {
		return m, CheckName(m.Name) == nil && s.folder(m.Name) == path
	}
	if _, err := os.Stat(filepath.Join(path, "config.json")); err != nil {
		return Model{}, false
	}
	m := Model{Name: nameOf(entry), Bytes: folderBytes(path), Added: info.ModTime(), Path: path}
	return m, CheckName(m.Name) == nil
}

func readManifest(dir string) (m Model, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	m.Path = dir
	if m.Open != "" {
		if err := hub.CheckPath(m.Open); err != nil {
			return m, err
		}
		m.Path = filepath.Join(dir, filepath.FromSlash(m.Open))
	}
	return m, nil
}

func folderBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // what cannot be read has no size
		}
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// ErrUnknown says that there is no model of a name.
var ErrUnknown = errors.New("no such model")

// Get returns the model of a name. NAME stands for NAME:latest's place in other tools:
// if there is one model alone whose name begins with it and a colon, that is meant.
func (s *Store) Get(name string) (Model, error) {
	models, err := s.List()
	if err != nil {
		return Model{}, err
	}
	var tagged []Model
	for _, m := range models {
		if m.Name == name {
			return m, nil
		}
		if strings.HasPrefix(m.Name, name+":") {
			tagged = append(tagged, m)
		}
	}
	if len(tagged) == 1 {
		return tagged[0], nil
	}
	if len(tagged) > 1 {
		return Model{}, fmt.Errorf("%w %q: there are %s", ErrUnknown, name, joinNames(tagged))
	}
	if len(models) == 0 {
		return Model{}, fmt.Errorf("%w %q: the folder %s is empty", ErrUnknown, name, s.Dir)
	}
	return Model{}, fmt.Errorf("%w %q: there are %s", ErrUnknown, name, joinNames(models))
}

func joinNames(models []Model) string {
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	return strings.Join(names, ", ")
}

// Remove takes a model out of the folder.
func (s *Store) Remove(name string) error {
	m, err := s.Get(name)
	if err != nil {
		return err
	}
	from := m.Path
	if m.Open != "" {
		from = s.folder(m.Name)
	}
	trash := filepath.Join(s.Dir, removedName)
	if err := os.MkdirAll(trash, 0o755); err != nil {
		return err
	}
	gone, err := os.MkdirTemp(trash, "")
	if err != nil {
		return err
	}
	if err := os.Rename(from, filepath.Join(gone, "model")); err != nil {
		return errors.Join(err, os.Remove(gone))
	}
	return os.RemoveAll(gone)
}

// Copy gives a model a second name. The files are shared where the disk can.
func (s *Store) Copy(from, to string) (Model, error) {
	m, err := s.Get(from)
	if err != nil {
		return Model{}, err
	}
	if err := s.checkFree(to); err != nil {
		return Model{}, err
	}
	dir, err := s.scratch()
	if err != nil {
		return Model{}, err
	}
	defer os.RemoveAll(dir)
	source := m.Path
	if m.Open != "" {
		source = s.folder(m.Name)
	}
	if err := linkAll(source, dir); err != nil {
		return Model{}, err
	}
	if info, err := os.Stat(source); err == nil && !info.IsDir() {
		m.Open = filepath.Base(source)
	}
	m.Name, m.Added = to, time.Now().UTC()
	return s.place(dir, m)
}

// checkFree refuses a name that is taken or cannot be one.
func (s *Store) checkFree(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	models, err := s.List()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(models, func(m Model) bool { return m.Name == name }) {
		return fmt.Errorf("there is a model called %s: choose another name, or remove it: parley rm %s", name, name)
	}
	return nil
}

// scratch makes an empty directory beside the models.
func (s *Store) scratch() (string, error) {
	parent := filepath.Join(s.Dir, partialName)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "new-")
}

// place writes the manifest of a complete directory and moves it to its name. A model
// that has the name by now is replaced.
func (s *Store) place(dir string, m Model) (Model, error) {
	m.Path = ""
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return Model{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), text, 0o644); err != nil {
		return Model{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return Model{}, err
	}
	final := s.folder(m.Name)
	err = os.Rename(dir, final)
	if errors.Is(err, fs.ErrExist) || isNotEmpty(err) {
		if err := s.Remove(m.Name); err != nil && !errors.Is(err, ErrUnknown) {
			return Model{}, err
		}
		err = os.Rename(dir, final)
	}
	if err != nil {
		return Model{}, err
	}
	return readManifest(final)
}

// linkAll links a file, or the files of a directory, into a directory; where the disk
// cannot, it copies.
func linkAll(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return link(from, filepath.Join(to, filepath.Base(from)))
	}
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." || rel == manifestName {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		}
		return link(path, filepath.Join(to, rel))
	})
}

func link(from, to string) (err error) {
	target, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if os.Link(target, to) == nil {
		return nil
	}
	in, err := os.Open(target)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
