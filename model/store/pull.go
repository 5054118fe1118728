package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/model/hub"
	"parley/model/weights"
)

// A Puller brings models into a store.
type Puller struct {
	Store  *Store
	Client *hub.Client
	// Check refuses a complete model that cannot be served; nil takes all.
	Check func(path string) error
	// Begin is told what will be downloaded; nil for nothing.
	Begin func(name string, files int, bytes int64)
	// Progress is told how far the download is; nil for nothing.
	Progress func(done, total int64)
	// Now is the clock of manifests; nil is [time.Now].
	Now func() time.Time
}

// Pull brings a model into the folder under a name; empty chooses one. A model that is
// there already, from the same source and commit, is not downloaded again.
func (p *Puller) Pull(ctx context.Context, s Source, name string) (Model, error) {
	if name != "" {
		if err := CheckName(name); err != nil {
			return Model{}, err
		}
	}
	if s.Path != "" {
		return p.take(s, name)
	}
	m, err := p.plan(ctx, s)
	if err != nil {
		return Model{}, err
	}
	if name != "" {
		m.Name = name
	}
	if had, ok := p.has(&m); ok {
		return had, nil
	}
	if err := p.checkEarly(ctx, &m); err != nil {
		return Model{}, err
	}
	return p.download(ctx, m)
}

// plan asks the source which files make up the model.
func (p *Puller) plan(ctx context.Context, s Source) (m Model, err error) {
	m = Model{Source: s.Text}
	if s.Entry != nil {
		m.Source = s.Entry.Source
	}
	if s.URL != "" {
		f, err := p.Client.Stat(ctx, s.URL)
		if err != nil {
			return m, err
		}
		if !strings.HasSuffix(f.Path, ".gguf") {
			return m, fmt.Errorf("%s is not a GGUF file: a single address can only be one", s.URL)
		}
		m.Files = []hub.File{f}
	} else {
		repo, err := p.Client.Repo(ctx, s.Repo, s.Revision)
		if err != nil {
			return m, err
		}
		if m.Files, err = choose(repo, s.Variant); err != nil {
			return m, err
		}
		m.Commit, m.License = repo.Commit, repo.License
	}
	m.Name = s.name(m.Files)
	if strings.HasSuffix(m.Files[0].Path, ".gguf") {
		m.Open = m.Files[0].Path
	}
	for _, f := range m.Files {
		m.Bytes += f.Size
	}
	return m, nil
}

// has returns the model of that name in the folder, if its files are the wanted ones.
func (p *Puller) has(want *Model) (Model, bool) {
	models, err := p.Store.List()
	if err != nil {
		return Model{}, false
	}
	i := slices.IndexFunc(models, func(m Model) bool { return m.Name == want.Name })
	if i < 0 {
		return Model{}, false
	}
	same := slices.EqualFunc(models[i].Files, want.Files, func(a, b hub.File) bool {
		a.URL, b.URL = "", "" // which has the commit in it
		return a == b
	})
	return models[i], same
}

// headBytes hold the name of the architecture in every published GGUF file.
const headBytes = 256 << 10

// checkEarly refuses a GGUF file of an architecture that cannot be served before it is
// downloaded.
func (p *Puller) checkEarly(ctx context.Context, m *Model) error {
	if m.Open == "" {
		return nil
	}
	head, err := p.Client.Head(ctx, &m.Files[0], headBytes)
	if err != nil {
		return err
	}
	if err := weights.CheckGGUFHead(head); err != nil {
		return fmt.Errorf("%s cannot be served: %w", m.Source, err)
	}
	return nil
}

// download fetches the files and moves the complete model to its place. Processes that
// pull the same model take turns.
func (p *Puller) download(ctx context.Context, m Model) (Model, error) {
	dir := filepath.Join(p.Store.Dir, partialName, m.key())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Model{}, err
	}
	unlock, err := p.Client.Lock(ctx, dir+".lock")
	if err != nil {
		return Model{}, err
	}
	defer unlock()
	if had, ok := p.has(&m); ok { // another process was faster
		return had, os.RemoveAll(dir)
	}
	if p.Begin != nil {
		p.Begin(m.Name, len(m.Files), m.Bytes)
	}
	if err := p.fetch(ctx, dir, &m); err != nil {
		return Model{}, err
	}
	if err := p.check(filepath.Join(dir, filepath.FromSlash(m.Open))); err != nil {
		return Model{}, errors.Join(fmt.Errorf("%s cannot be served: %w", m.Source, err), os.RemoveAll(dir))
	}
	m.Added = p.now()
	return p.Store.place(dir, m)
}

// fetch downloads the files. Those of a directory that say what the model is come
// before its weights.
func (p *Puller) fetch(ctx context.Context, dir string, m *Model) error {
	if m.Open == "" {
		small := slices.DeleteFunc(slices.Clone(m.Files), func(f hub.File) bool {
			return strings.HasSuffix(f.Path, ".safetensors")
		})
		if err := p.Client.Fetch(ctx, dir, small, nil); err != nil {
			return err
		}
		if err := weights.CheckDirectory(dir); err != nil {
			return errors.Join(fmt.Errorf("%s cannot be served: %w", m.Source, err), os.RemoveAll(dir))
		}
	}
	return p.Client.Fetch(ctx, dir, m.Files, p.Progress)
}

// key names the directory in which the files grow.
func (m *Model) key() string {
	sum := sha256.New()
	for _, f := range m.Files {
		fmt.Fprintln(sum, f.Path, f.Size, f.SHA256, f.GitSHA1, f.ETag, f.URL)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func (p *Puller) check(path string) error {
	if p.Check == nil {
		return nil
	}
	return p.Check(path)
}

func (p *Puller) now() time.Time {
	if p.Now == nil {
		return time.Now().UTC()
	}
	return p.Now()
}

// take brings files of this machine into the folder: as links where the disk can, so
// that they take no room twice.
func (p *Puller) take(s Source, name string) (Model, error) {
	if name == "" {
		name = s.name(nil)
	}
	if err := p.Store.checkFree(name); err != nil {
		return Model{}, err
	}
	path, err := filepath.Abs(s.Path)
	if err != nil {
		return Model{}, err
	}
	if err := p.check(path); err != nil {
		return Model{}, err
	}
	dir, err := p.Store.scratch()
	if err != nil {
		return Model{}, err
	}
	defer os.RemoveAll(dir) // unless it has moved to its place
	m := Model{Name: name, Source: path, Added: p.now()}
	files, err := localFiles(path)
	if err != nil {
		return Model{}, err
	}
	for _, f := range files {
		if err := link(f, filepath.Join(dir, filepath.Base(f))); err != nil {
			return Model{}, err
		}
		info, err := os.Stat(f)
		if err != nil {
			return Model{}, err
		}
		m.Files = append(m.Files, hub.File{Path: filepath.Base(f), Size: info.Size()})
		m.Bytes += info.Size()
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		m.Open = filepath.Base(path)
	}
	return p.Store.place(dir, m)
}

// localFiles lists the files of a model on this machine.
func localFiles(path string) (files []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if cut := splitName.FindStringSubmatch(path); cut != nil {
			return filepath.Glob(cut[1] + "-?????-of-" + cut[3] + ".gguf")
		}
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		wanted := slices.Contains(besideWeights, e.Name()) || strings.HasSuffix(e.Name(), ".safetensors")
		if e.Type()&fs.ModeDir == 0 && wanted {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, err
}
