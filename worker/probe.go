package worker

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/worker/foreign"
)

// Probe asks the engine how it is. An error is one of [parley.Error]; what was
// known before stays known to [Remote.Models] and [Remote.Source].
func (r *Remote) Probe(ctx context.Context) (Status, error) {
	var s Status
	var err error
	if r.cfg.Upstream != nil {
		if s, err = r.probeUpstream(ctx); err == nil {
			r.status.Store(&s)
		}
		return s, err
	}
	switch r.cfg.Kind {
	case Parley:
		s, err = r.probeParley(ctx)
	case Ollama:
		s, err = r.probeOllama(ctx)
	case LlamaCpp:
		s, err = r.probeLlama(ctx)
	default:
		s, err = r.probeOpenAI(ctx)
	}
	if err != nil {
		r.server.Store(nil) // it may be started again for another part
		return Status{}, err
	}
	s.Models = r.ourModels(s.Models)
	r.status.Store(&s)
	return s, nil
}

// probeUpstream asks whether the service is there and takes the key. What it lists is not
// looked at: lists of hosted services name neither all aliases nor all deployments.
func (r *Remote) probeUpstream(ctx context.Context) (Status, error) {
	if last := r.probed.Load(); last != nil && time.Now().Before(last.until) {
		return last.status, nil
	}
	var list struct{}
	if err := r.get(ctx, "/v1/models", &list); err != nil && parley.CodeOf(err) != parley.NotFound &&
		parley.CodeOf(err) != parley.MethodNotAllowed {
		return Status{}, err
	}
	var models []parley.Model
	for _, name := range slices.Sorted(maps.Keys(r.cfg.Upstream.Models)) {
		models = append(models, parley.Model{ID: name, ContextTokens: r.cfg.Upstream.Models[name].ContextTokens})
	}
	s := Status{Models: models}
	r.probed.Store(&probeState{time.Now().Add(r.cfg.Upstream.ProbeEvery), s})
	return s, nil
}

// LearnFrom gives a Parley worker what others have observed of how soon blocks are used again, and
// returns what it has observed itself.
func (r *Remote) LearnFrom(ctx context.Context, others [][]byte) (own []byte, err error) {
	resp, err := r.send(ctx, ReusePath, Reuse{Others: others})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer Reuse
	if err := json.NewDecoder(io.LimitReader(resp.Body, answerMax)).Decode(&answer); err != nil {
		return nil, r.garbled(ctx, err)
	}
	return answer.Own, nil
}

func (r *Remote) probeParley(ctx context.Context) (Status, error) {
	var a About
	if err := r.get(ctx, AboutPath, &a); err != nil {
		return Status{}, err
	}
	return Status{
		Version:        a.Version,
		Instance:       a.Instance,
		Pool:           a.Pool,
		Role:           a.Role,
		Models:         a.Models,
		Running:        a.Running,
		Waiting:        a.Waiting,
		Seats:          a.Seats,
		BusySeconds:    a.BusySeconds,
		Preemptions:    a.Preemptions,
		ReadySeconds:   a.ReadySeconds,
		KVUse:          a.KVUse,
		CapacityBlocks: a.Blocks,
		BlockTokens:    a.BlockTokens,
		Sleeping:       a.Sleeping,
		Draining:       a.Draining,
		MoveWithin:     time.Duration(a.MoveSeconds * float64(time.Second)),
		Format:         a.Format,
		BlockBytes:     a.BlockBytes,
		Place:          a.Place,
		Device:         a.Device,
	}, nil
}

// probeOpenAI asks a server with OpenAI's list of models. Health, metrics, sleep
// and version are vLLM's and SGLang's.
func (r *Remote) probeOpenAI(ctx context.Context) (Status, error) {
	s := Status{Role: r.cfg.Role}
	plain := r.cfg.Kind == OpenAI || r.cfg.Kind.TakesTurns()
	if !plain {
		if err := r.healthy(ctx, "/health"); err != nil {
			return s, err
		}
	}
	if err := r.listModels(ctx, &s); err != nil {
		return s, err
	}
	if plain {
		return s, nil
	}
	if err := r.measure(ctx, &s); err != nil {
		return s, err
	}
	if r.cfg.Kind == SGLang {
		role, err := r.askRole(ctx)
		s.Role = cmp.Or(role, s.Role)
		return s, err
	}
	if r.cfg.Kind == VLLM {
		var version struct{ Version string }
		var sleep struct {
			Sleeping bool `json:"is_sleeping"`
		}
		if r.optional(r.get(ctx, "/version", &version)) && r.optional(r.get(ctx, "/is_sleeping", &sleep)) {
			s.Version, s.Sleeping = version.Version, sleep.Sleeping
		}
	}
	return s, nil
}

// askRole asks an SGLang engine for its part in requests, which needs to be known once.
func (r *Remote) askRole(ctx context.Context) (parley.WorkerRole, error) {
	known := r.server.Load()
	if known == nil {
		known = new(foreign.Disaggregation)
		if err := r.get(ctx, "/get_server_info", known); !r.optional(err) {
			return "", err
		}
	}
	role, err := known.Role()
	if err != nil {
		return "", parley.Errorf(parley.Unavailable, "worker %s: %v", r.cfg.URL, err)
	}
	r.server.Store(known)
	return role, nil
}

// optional reports whether an answer was had; not all servers have all routes.
func (r *Remote) optional(err error) bool {
	return err == nil || parley.CodeOf(err) == parley.NotFound
}

func (r *Remote) listModels(ctx context.Context, s *Status) error {
	var list struct {
		Data []struct {
			ID        string `json:"id"`
			MaxLength int    `json:"max_model_len"`
			Parent    string `json:"parent"` // vLLM: of an adapter
		} `json:"data"`
	}
	err := r.get(ctx, "/v1/models", &list)
	if parley.CodeOf(err) == parley.NotFound && len(r.cfg.Names) > 0 { // not all servers have a list
		for _, name := range slices.Sorted(maps.Keys(r.cfg.Names)) {
			s.Models = append(s.Models, parley.Model{ID: r.cfg.Names[name], ContextTokens: r.cfg.ContextTokens})
		}
		s.Models = slices.Compact(s.Models)
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range list.Data {
		s.Models = append(s.Models, parley.Model{ID: m.ID, ContextTokens: cmp.Or(m.MaxLength, r.cfg.ContextTokens)})
		if m.Parent != "" {
			s.Adapters = append(s.Adapters, m.ID)
		}
	}
	return nil
}

// healthy asks a route that answers with a status alone.
func (r *Remote) healthy(ctx context.Context, path string) error {
	resp, err := r.send(ctx, path, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, answerMax))
	resp.Body.Close()
	if err != nil {
		return r.unreachable(ctx, err)
	}
	return nil
}

func (r *Remote) probeLlama(ctx context.Context) (Status, error) {
	var s Status
	if err := r.healthy(ctx, "/health"); err != nil {
		return s, err
	}
	var props struct {
		Build    string `json:"build_info"`
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Sleeping bool `json:"is_sleeping"`
	}
	if err := r.get(ctx, "/props", &props); err != nil {
		return s, err
	}
	if err := r.listModels(ctx, &s); err != nil {
		return s, err
	}
	s.Version, s.Sleeping = props.Build, props.Sleeping
	for i := range s.Models {
		s.Models[i].ContextTokens = cmp.Or(props.Settings.Context, s.Models[i].ContextTokens)
	}
	return s, r.measure(ctx, &s)
}

func (r *Remote) probeOllama(ctx context.Context) (Status, error) {
	var s Status
	var version struct{ Version string }
	var tags struct{ Models []struct{ Name string } }
	if err := r.get(ctx, "/api/version", &version); err != nil {
		return s, err
	}
	if err := r.get(ctx, "/api/tags", &tags); err != nil {
		return s, err
	}
	s.Version = version.Version
	for _, m := range tags.Models {
		s.Models = append(s.Models,
			parley.Model{ID: strings.TrimSuffix(m.Name, ":latest"), ContextTokens: r.cfg.ContextTokens})
	}
	return s, nil
}

// measure reads load and memory from the engine's metrics. Servers may have
// them switched off.
func (r *Remote) measure(ctx context.Context, s *Status) error {
	resp, err := r.send(ctx, "/metrics", nil)
	if code := parley.CodeOf(err); err != nil && (code == parley.NotFound ||
		code == parley.Unavailable && isStatus(err, http.StatusNotImplemented)) {
		return nil
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := readMetrics(io.LimitReader(resp.Body, answerMax), s); err != nil {
		return r.unreachable(ctx, err)
	}
	return nil
}

func isStatus(err error, status int) bool {
	return strings.Contains(err.Error(), "status "+strconv.Itoa(status))
}

// readMetrics reads the few numbers that count from Prometheus' text. Several
// ranks of one engine add up; of their use of memory the highest counts.
func readMetrics(from io.Reader, s *Status) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, labels, number, ok := parseMetric(lines.Bytes())
		if !ok {
			continue
		}
		switch name {
		case "vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing":
			s.Running += int(number)
		case "vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred":
			s.Waiting += int(number)
		case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage":
			s.KVUse = max(s.KVUse, number)
		case "vllm:cache_config_info":
			s.CapacityBlocks += label(labels, "num_gpu_blocks")
			s.BlockTokens = label(labels, "block_size")
		case "sglang:page_size":
			s.BlockTokens = int(number)
		case "sglang:num_pages":
			s.CapacityBlocks += int(number)
		}
	}
	return lines.Err()
}

// parseMetric reads a line such as name{labels} 1.5.
func parseMetric(line []byte) (name string, labels []byte, number float64, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' {
		return "", nil, 0, false
	}
	at := bytes.IndexAny(line, "{ ")
	if at < 0 {
		return "", nil, 0, false
	}
	name, rest := string(line[:at]), line[at:]
	if rest[0] == '{' {
		end := bytes.LastIndexByte(rest, '}')
		if end < 0 {
			return "", nil, 0, false
		}
		labels, rest = rest[1:end], rest[end+1:]
	}
	words := bytes.Fields(rest)
	if len(words) == 0 {
		return "", nil, 0, false
	}
	number, err := strconv.ParseFloat(string(words[0]), 64)
	return name, labels, number, err == nil && number >= 0 && number < 1<<53
}

// label returns the number that a label has, 0 if there is none.
func label(labels []byte, name string) int {
	_, rest, found := bytes.Cut(labels, []byte(name+`="`))
	if !found {
		return 0
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	n, _ := strconv.Atoi(string(text))
	return max(0, n)
}
