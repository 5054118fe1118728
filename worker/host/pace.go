package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"parley/compute"
	"parley/engine/sched"
)

// A paceMemory keeps how long passes of a model take on this machine in a file,
// from one process to the next, so that the first requests are planned as well as
// later ones.
type paceMemory struct {
	path string // empty: nothing is kept
	of   string
	kept time.Time
	log  *slog.Logger
}

// paceFile is the content of the file. Of names what the times depend on: those of
// another device, number of threads or model count for nothing.
type paceFile struct {
	Of   string     `json:"of"`
	Pace sched.Pace `json:"pace"`
}

// keepEvery is how often the file is written at most, but for the end.
const keepEvery = time.Minute

func (p *Plan) paceMemory(backend compute.Backend) *paceMemory {
	m := &paceMemory{log: p.cfg.Log}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if p.cfg.DataDir == "" {
		return m
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %+v%s\n", backend.Name(), p.cfg.KVType, p.ck.Config, p.Weights)
	for _, t := range p.ck.Tensors() {
		fmt.Fprintf(h, "%s %s %v\n", t.Name, t.Type, t.Shape)
	}
	m.of = hex.EncodeToString(h.Sum(nil))
	m.path = filepath.Join(p.cfg.DataDir, "pace", url.PathEscape(p.Name)+".json")
	return m
}

// recall returns what was kept. A file that is damaged, or of another model or
// device, is as good as none.
func (m *paceMemory) recall() sched.Pace {
	text, err := os.ReadFile(m.path)
	if m.path == "" || errors.Is(err, fs.ErrNotExist) {
		return sched.Pace{}
	}
	var f paceFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		m.log.Warn("pace not remembered", "file", m.path, "error", err)
		return sched.Pace{}
	}
	if f.Of != m.of {
		return sched.Pace{}
	}
	return f.Pace
}

// keep writes what was learned, unless it did so lately and more will come.
func (m *paceMemory) keep(p sched.Pace, last bool) {
	if m.path == "" || !last && time.Since(m.kept) < keepEvery {
		return
	}
	m.kept = time.Now()
	if err := m.write(paceFile{m.of, p}); err != nil {
		m.log.Warn("pace not kept", "file", m.path, "error", err)
	}
}

// write puts a whole file in the place of the one before.
func (m *paceMemory) write(f paceFile) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(m.path), filepath.Base(m.path)+".*")
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), m.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}
