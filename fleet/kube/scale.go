package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Target is what has replicas.
type Target struct {
	Kind string // deployment, statefulset or leaderworkerset
	Name string
}

// kinds are what can be scaled, with their short names.
var kinds = []struct {
	names                  []string
	group, version, plural string
}{
	{[]string{"deployment", "deployments", "deploy"}, "apps", "v1", "deployments"},
	{[]string{"statefulset", "statefulsets", "sts"}, "apps", "v1", "statefulsets"},
	{[]string{"leaderworkerset", "leaderworkersets", "lws"}, "leaderworkerset.x-k8s.io", "v1", "leaderworkersets"},
}

// ParseTarget reads KIND/NAME, with the kinds as kubectl takes them.
func ParseTarget(text string) (Target, error) {
	kind, name, _ := strings.Cut(text, "/")
	for _, k := range kinds {
		if slices.Contains(k.names, strings.ToLower(kind)) && name != "" && !strings.Contains(name, "/") {
			return Target{Kind: k.names[0], Name: name}, nil
		}
	}
	return Target{}, fmt.Errorf(
		"%q is not what can be scaled: want deployment/NAME, statefulset/NAME or leaderworkerset/NAME", text)
}

// String returns KIND/NAME.
func (t Target) String() string { return t.Kind + "/" + t.Name }

// scale returns the scale subresource.
func (t Target) scale() *object {
	for _, k := range kinds {
		if k.names[0] == t.Kind {
			return &object{
				group:   k.group,
				version: k.version,
				plural:  k.plural,
				name:    t.Name,
				sub:     "scale",
			}
		}
	}
	panic("a target of unknown kind " + t.Kind)
}

// Numbered reports whether the pods have numbers, of which the highest leave first.
func (t Target) Numbered() bool { return t.Kind != "deployment" }

// metadata is what is used of that of all objects.
type metadata struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// scaleDocument is autoscaling/v1's Scale.
type scaleDocument struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Replicas int `json:"replicas"`
	} `json:"status"`
}

// A Scale is how many replicas a target should have and has.
type Scale struct {
	Wanted, Present int
	document        scaleDocument
}

// Scale reads how many replicas a target has.
func (c *Cluster) Scale(ctx context.Context, t Target) (s Scale, err error) {
	if err = c.do(ctx, http.MethodGet, t.scale(), nil, &s.document); err != nil {
		return s, fmt.Errorf("cannot read the replicas of %v: %w", t, missing(err, t))
	}
	s.Wanted, s.Present = s.document.Spec.Replicas, s.document.Status.Replicas
	return s, nil
}

// missing adds to an error what may be missing.
func missing(err error, t Target) error {
	refused, ok := errors.AsType[*Refusal](err)
	if ok && refused.Status == http.StatusNotFound && t.Kind == "leaderworkerset" {
		refused.Advice = "check the name and namespace, and that the LeaderWorkerSet API is installed"
	}
	return err
}

// conflictsMax is how often a change is tried again after a conflict. Controllers write the
// status of what they control, so conflicts are normal, and rare enough that few follow
// each other.
const conflictsMax = 10

// SetReplicas changes how many replicas a target should have, given what it was seen to
// have. If it was changed meanwhile it is read again; if it then has other replicas than
// those seen, the change is refused with a conflict: another one acts on it.
func (c *Cluster) SetReplicas(ctx context.Context, t Target, seen Scale, replicas int) error {
	now := seen
	for tries := 0; ; tries++ {
		document := now.document
		document.Spec.Replicas = replicas
		err := c.do(ctx, http.MethodPut, t.scale(), &document, new(scaleDocument))
		if err == nil {
			return nil
		}
		if statusOf(err) == http.StatusConflict && tries < conflictsMax {
			if now, err = c.Scale(ctx, t); err != nil {
				return err
			}
			if now.Wanted == seen.Wanted {
				continue
			}
			err = fmt.Errorf("another one set %d at the same time", now.Wanted)
		}
		return fmt.Errorf("cannot set %v from %d to %d replicas: %w", t, seen.Wanted, replicas, err)
	}
}

// deletionCost is how much the controller of a Deployment spares a pod when it ends some.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// EndFirst has a pod be among the first that its controller ends, or takes that back.
func (c *Cluster) EndFirst(ctx context.Context, pod string, first bool) error {
	var cost any
	if first {
		cost = "-1000"
	}
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{deletionCost: cost}}}
	o := &object{version: "v1", plural: "pods", name: pod}
	if err := c.do(ctx, http.MethodPatch, o, patch, new(struct{})); err != nil {
		return fmt.Errorf("cannot set the deletion cost of pod %s: %w", pod, err)
	}
	return nil
}
