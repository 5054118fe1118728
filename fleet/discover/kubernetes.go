package discover

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"parley/fleet/kube"
)

// A Kubernetes says which service's endpoints are workers. The zero value of
// every field but Service works inside a cluster.
type Kubernetes struct {
	// Service is the name of a service, in Namespace; default: the pod's own.
	Service, Namespace string
	// Port is the name or number of the port; default: the first.
	Port string
	// Scheme is http, the default, or https.
	Scheme string
	// API is where the API server is, TokenFile and CAFile what it is talked to
	// with; default: what the pod was given.
	API, TokenFile, CAFile string
	// Client overrides how the API server is reached.
	Client *http.Client
	// Retry is the wait after a failure, which doubles up to a minute; default 1 s.
	Retry time.Duration
	Log   *slog.Logger

	cluster *kube.Cluster
}

const (
	sliceLabel  = "kubernetes.io/service-name"
	watchMax    = 5 * time.Minute
	retryMost   = time.Minute
	listBytes   = 64 << 20
	eventBytes  = 4 << 20
	slicesInOne = 500
)

// Source returns the source, or says what is missing.
func (k Kubernetes) Source() (Source, error) {
	if k.Service == "" {
		return nil, errors.New("the name of the Kubernetes service is missing")
	}
	k.Scheme, k.Retry, k.Log = cmp.Or(k.Scheme, "http"), cmp.Or(k.Retry, time.Second), orDefault(k.Log)
	if err := k.connect(); err != nil {
		return nil, err
	}
	if k.cluster.Namespace == "" {
		return nil, errors.New("the namespace of the service is missing")
	}
	return k.follow, nil
}

// connect finds out how the API server is talked to.
func (k *Kubernetes) connect() (err error) {
	if k.API == "" {
		k.cluster, err = kube.InPod()
		if errors.Is(err, kube.ErrNotInPod) {
			return fmt.Errorf("%w: set the address of the API server", err)
		}
		if err != nil {
			return err
		}
	} else {
		k.cluster = &kube.Cluster{API: k.API, Namespace: kube.PodNamespace()}
	}
	k.cluster.TokenFile = cmp.Or(k.TokenFile, k.cluster.TokenFile)
	k.cluster.Namespace = cmp.Or(k.Namespace, k.cluster.Namespace)
	if k.Client != nil {
		k.cluster.HTTP = k.Client
	} else if k.CAFile != "" || k.cluster.HTTP == nil {
		k.cluster.HTTP, err = kube.Dial(k.CAFile)
	}
	return err
}

// A slice is a part of a service's endpoints.
type slice struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready, Terminating *bool
		} `json:"conditions"`
		TargetRef *struct {
			Name string `json:"name"`
		} `json:"targetRef"`
		NodeName string `json:"nodeName"`
		Zone     string `json:"zone"`
	} `json:"endpoints"`
	Ports []struct {
		Name *string `json:"name"`
		Port *int    `json:"port"`
	} `json:"ports"`
}

// serviceState is what is known of the service.
type serviceState struct {
	slices  map[string]slice
	version string
}

// errExpired says that the version to watch from is too old: list again.
var errExpired = errors.New("the watched resource version has expired")

// follow lists and watches until ctx ends. An error changes nothing that is known.
func (k Kubernetes) follow(ctx context.Context, tell func([]Address)) {
	var last []Address
	told := false
	state := &serviceState{}
	report := func() {
		places, err := complete(k.places(state.slices))
		if err != nil {
			k.Log.Warn("invalid Kubernetes endpoints", "service", k.Service, "error", err)
			return
		}
		if !told || !slices.EqualFunc(places, last, Address.equal) {
			last, told = places, true
			tell(slices.Clone(places))
		}
	}
	wait := k.Retry
	for ctx.Err() == nil {
		err := k.round(ctx, state, report)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = k.Retry
			continue
		case errors.Is(err, errExpired):
			state.version = ""
		default:
			k.Log.Warn("Kubernetes API unreachable; keeping known workers", "service", k.Service, "error", err,
				"again_in", wait)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, retryMost)
	}
}

// round lists if need be, and then watches until the server ends it.
func (k *Kubernetes) round(ctx context.Context, state *serviceState, report func()) error {
	if state.version == "" {
		if err := k.list(ctx, state); err != nil {
			return err
		}
		report()
	}
	return k.watch(ctx, state, report)
}

// list reads all slices, page by page.
func (k *Kubernetes) list(ctx context.Context, state *serviceState) error {
	all := map[string]slice{}
	for next := ""; ; {
		body, err := k.get(ctx, url.Values{"limit": {strconv.Itoa(slicesInOne)}, "continue": {next}})
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct{ ResourceVersion, Continue string }
			Items    []slice
		}
		err = json.NewDecoder(io.LimitReader(body, listBytes)).Decode(&page)
		body.Close()
		if err != nil {
			return fmt.Errorf("cannot parse the list of endpoints: %w", err)
		}
		for _, s := range page.Items {
			all[s.Metadata.Name] = s
		}
		if next = page.Metadata.Continue; next == "" {
			state.slices, state.version = all, page.Metadata.ResourceVersion
			return nil
		}
	}
}

// watch takes changes in until the server ends the watch.
func (k *Kubernetes) watch(ctx context.Context, state *serviceState, report func()) error {
	body, err := k.get(ctx,
		url.Values{"watch": {"1"}, "resourceVersion": {state.version}, "allowWatchBookmarks": {"true"},
			"timeoutSeconds": {strconv.Itoa(int(watchMax.Seconds()))}})
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), eventBytes)
	for lines.Scan() {
		if err := state.apply(lines.Bytes()); err != nil {
			return err
		}
		report()
	}
	return lines.Err()
}

// apply takes one event in.
func (w *serviceState) apply(line []byte) error {
	var event struct {
		Type   string
		Object json.RawMessage
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("cannot parse a watch event: %w", err)
	}
	if event.Type == "ERROR" {
		var status struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(event.Object, &status); err == nil && status.Code == http.StatusGone {
			return errExpired
		}
		return fmt.Errorf("the watch ended: %s", status.Message)
	}
	var s slice
	if err := json.Unmarshal(event.Object, &s); err != nil {
		return fmt.Errorf("cannot parse a watch event: %w", err)
	}
	switch event.Type {
	case "ADDED", "MODIFIED":
		w.slices[s.Metadata.Name] = s
	case "DELETED":
		delete(w.slices, s.Metadata.Name)
	}
	w.version = cmp.Or(s.Metadata.ResourceVersion, w.version)
	return nil
}

// get asks the API server for the slices of the service.
func (k *Kubernetes) get(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	query.Set("labelSelector", sliceLabel+"="+k.Service)
	at := "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(k.cluster.Namespace) + "/endpointslices"
	body, err := k.cluster.Open(ctx, at, query)
	if refused, ok := errors.AsType[*kube.Refusal](err); ok && refused.Status == http.StatusGone {
		return nil, errExpired
	}
	return body, err
}

// places lists the endpoints that are ready, each once.
func (k *Kubernetes) places(all map[string]slice) []Address {
	found := map[string]Address{}
	for _, s := range all {
		port := k.port(&s)
		if port == 0 {
			continue
		}
		for _, e := range s.Endpoints {
			if len(e.Addresses) == 0 || e.Conditions.Ready != nil && !*e.Conditions.Ready ||
				e.Conditions.Terminating != nil && *e.Conditions.Terminating {
				continue
			}
			host := net.JoinHostPort(e.Addresses[0], strconv.Itoa(port))
			p := Address{Name: host, URL: k.Scheme + "://" + host, Labels: map[string]string{}}
			if e.TargetRef != nil && e.TargetRef.Name != "" {
				p.Name = e.TargetRef.Name
			}
			for key, value := range map[string]string{"node": e.NodeName, "zone": e.Zone} {
				if value != "" {
					p.Labels[key] = value
				}
			}
			found[p.Name] = p
		}
	}
	return slices.Collect(maps.Values(found))
}

// port returns the number of the port that workers listen on, 0 if a slice has
// none.
func (k *Kubernetes) port(s *slice) int {
	for _, p := range s.Ports {
		if p.Port == nil {
			continue
		}
		if k.Port == "" || p.Name != nil && *p.Name == k.Port || strconv.Itoa(*p.Port) == k.Port {
			return *p.Port
		}
	}
	return 0
}
