package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"parley/cli/settings"
	"parley/gateway"
	"parley/gateway/models"
	"parley/model/store"
	"parley/model/weights"
	"parley/worker/host"

	"github.com/prometheus/client_golang/prometheus"
)

// A modelFolder keeps what a server offers in step with the model folder. Models that were
// named by --model, or are built in, are pinned: they stay loaded.
type modelFolder struct {
	settings *settings.Settings
	folder   *store.Store
	library  *host.Library
	device   host.Device
	pinned   []models.Config
	log      *slog.Logger

	// pulling are the downloads that the server does.
	pulling sync.WaitGroup

	mu    sync.Mutex
	known map[string]folderEntry
	// problems say why models of the folder are not offered.
	problems map[string]string
	// serve changes what the gateway serves; nil until there is one.
	serve func([]models.Config) error
}

// A folderEntry is a model of the folder that is offered.
type folderEntry struct {
	model store.Model
	title *host.Title
}

// folderEvery is how often the folder is looked at. A look is one listing of a directory.
const folderEvery = time.Second

// reserveShare is the part of the free memory that models of the folder leave to others.
const reserveShare = 0.1

// openModelFolder returns the models of the folder for a server, nil if it serves others: the
// ones that --model names, or the ones of a fleet.
func openModelFolder(
	s *settings.Settings, b *backend, registry prometheus.Registerer, log *slog.Logger,
) (*modelFolder, error) {
	if len(s.Models) > 0 || !s.Computes() || len(s.AllPools()) > 0 {
		return nil, nil
	}
	device, _, err := host.ChooseDevice(s.Device)
	if err != nil {
		return nil, err
	}
	budget, free := b.freeBytes, host.AvailableBytes
	if device.GPU {
		budget, free = device.FreeBytes, nil
	}
	f := &modelFolder{
		settings: s,
		folder:   s.ModelFolder(),
		device:   device,
		pinned:   b.served,
		log:      log,
		known:    map[string]folderEntry{},
		problems: map[string]string{},
		library: host.NewLibrary(host.LibraryConfig{
			Budget:    int64((1 - reserveShare) * float64(budget)),
			KeepAlive: s.KeepAlive,
			Free:      free,
			Registry:  registry,
			Log:       log,
		}),
	}
	if err := registry.Register(f.library); err != nil {
		return nil, err
	}
	err = f.sync()
	b.served = f.models()
	return f, err
}

// models lists what is offered, the default first: the model that came last, or the
// first built-in one.
func (f *modelFolder) models() []models.Config {
	var list []models.Config
	var newest time.Time
	for _, e := range f.known {
		t := e.title
		if e.model.Added.After(newest) {
			newest = e.model.Added
		}
		list = append(list, models.Config{
			ID:            t.Name,
			Worker:        t,
			Tokenizer:     t.Tokenizer,
			Template:      t.Template,
			ContextTokens: t.ContextTokens,
			Created:       e.model.Added,
			About:         aboutOf(t.Name, &t.Summary, e.model.License),
		})
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		if byAge := b.Created.Compare(a.Created); byAge != 0 && (a.Created.Equal(newest) || b.Created.Equal(newest)) {
			return byAge < 0
		}
		return a.ID < b.ID
	})
	list = append(list, f.pinned...)
	for i := range list {
		list[i].Default = i == 0
	}
	return list
}

// sync offers what is in the folder, and nothing else.
func (f *modelFolder) sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	models, err := f.folder.List()
	if err != nil {
		return err
	}
	changed := false
	for name, e := range f.known {
		if !slices.ContainsFunc(models, func(m store.Model) bool { return sameModel(m, e.model) }) {
			delete(f.known, name)
			f.library.Remove(name)
			f.log.Info("model removed", "model", name)
			changed = true
		}
	}
	f.problems = f.problemsOf(models)
	for _, m := range models {
		if _, ok := f.known[m.Name]; !ok && f.problems[m.Name] == "" {
			changed = f.add(m) || changed
		}
	}
	if changed && f.serve != nil {
		return f.serve(f.models())
	}
	return nil
}

func sameModel(a, b store.Model) bool {
	return a.Name == b.Name && a.Path == b.Path && a.Added.Equal(b.Added) && a.Bytes == b.Bytes
}

// problemsOf keeps what is known of models that cannot be offered while they are there.
func (f *modelFolder) problemsOf(there []store.Model) map[string]string {
	kept := map[string]string{}
	for _, m := range there {
		if text, ok := f.problems[m.Name]; ok {
			kept[m.Name] = text
		}
		if slices.ContainsFunc(f.pinned, func(p models.Config) bool { return p.ID == m.Name }) {
			kept[m.Name] = "a built-in model has this name"
		}
	}
	return kept
}

// add offers a model, and reports whether it can.
func (f *modelFolder) add(m store.Model) bool {
	cfg := f.settings.HostConfig(m.Name, f.log)
	cfg.Device = f.device
	title, err := f.library.Add(cfg, func() (*weights.Checkpoint, error) { return weights.Open(m.Path) })
	if err != nil {
		f.problems[m.Name] = err.Error()
		f.log.Warn("model not offered", "model", m.Name, "error", err)
		return false
	}
	f.known[m.Name] = folderEntry{m, title}
	f.log.Info("model added", "model", m.Name, "memory_bytes", m.Bytes)
	return true
}

// run follows the folder until ctx ends.
func (f *modelFolder) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { f.library.Run(ctx) })
	defer running.Wait()
	tick := time.NewTicker(folderEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := f.sync(); err != nil {
			f.log.Error("model folder unreadable", "error", err)
		}
	}
}

// close ends what it does in the background; the server must have ended.
func (f *modelFolder) close() error {
	if f == nil {
		return nil
	}
	f.pulling.Wait()
	return f.library.Close()
}

// follow gives the gateway what is offered whenever that changes. The caller must call
// stop.
func (f *modelFolder) follow(ctx context.Context, front *gateway.Gateway) (stop func()) {
	if f == nil {
		return func() {}
	}
	f.mu.Lock()
	f.serve = front.SetModels
	f.mu.Unlock()
	return inBackground(ctx, f.run)
}

// demoNote says how to get a real model, where there is none.
func demoNote(served []models.Config) string {
	if len(served) == 0 || served[0].ID != "polly" {
		return ""
	}
	return fmt.Sprintf("Polly is a tiny demo model. Add a real one: parley pull %s\n", suggestedModel)
}

// suggestedModel is the first real model that is suggested.
const suggestedModel = "qwen3:0.6b"
