package ops

import (
	"net/http"
	"runtime"
	"time"

	"parley/gateway/exchange"
	"parley/gateway/models"
)

// A Server describes the process and what it serves.
type Server struct {
	Version  string    `json:"version"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	CPUs     int       `json:"cpus"`
	Started  time.Time `json:"started"`
	// ResidentBytes is the memory of the process, 0 if the system does not report it, and
	// HeapBytes what of it the program has allocated; weights that are mapped from files
	// are in the former alone.
	ResidentBytes int64         `json:"resident_bytes"`
	HeapBytes     int64         `json:"heap_bytes"`
	Models        []ServerModel `json:"models"`
	Settings      []Setting     `json:"settings"`
}

// A ServerModel describes a model that is served.
type ServerModel struct {
	ID            string `json:"id"`
	Family        string `json:"family,omitempty"`
	Parameters    int64  `json:"parameters,omitempty"`
	Quantization  string `json:"quantization,omitempty"`
	ContextTokens int    `json:"context_tokens"`
	License       string `json:"license,omitempty"`
	// Bytes is what it takes of memory where it is loaded.
	Bytes  int64 `json:"bytes,omitempty"`
	Loaded bool  `json:"loaded"`
	// Unready says why it cannot answer now.
	Unready string `json:"unready,omitempty"`
}

// ShowServer answers GET /admin/api/server.
func (a *API) ShowServer(x *exchange.Exchange) error {
	s := Server{
		Version:  a.Process.Version,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs:     runtime.GOMAXPROCS(0),
		Started:  a.Process.Started,
		Models:   []ServerModel{},
		Settings: append([]Setting{}, a.Process.Settings...),
	}
	if err := a.readMemory(&s); err != nil {
		return err
	}
	for _, m := range a.Process.Models() {
		s.Models = append(s.Models, describe(m))
	}
	return x.Reply(http.StatusOK, s)
}

// readMemory fills in the memory of the process, as GET /metrics shows it.
func (a *API) readMemory(s *Server) error {
	gathered, err := a.Registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range gathered {
		switch f.GetName() {
		case "process_resident_memory_bytes":
			s.ResidentBytes = int64(f.GetMetric()[0].GetGauge().GetValue())
		case "go_memstats_heap_inuse_bytes":
			s.HeapBytes = int64(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return nil
}

func describe(m *models.Model) ServerModel {
	d := ServerModel{
		ID:            m.ID,
		Family:        m.About.Family,
		Parameters:    m.About.Parameters,
		Quantization:  m.About.Quantization,
		ContextTokens: m.ContextTokens,
		License:       m.About.License,
	}
	bytes, _, loaded := m.Residence()
	if d.Loaded = loaded; loaded {
		d.Bytes = bytes
	}
	if err := m.Unready(); err != nil {
		d.Unready = err.Error()
	}
	return d
}
