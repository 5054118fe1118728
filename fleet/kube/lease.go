package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Lease is held by one of several processes at a time: the one that scales. It ends
// without renewal, and nothing depends on clocks that agree: a process that waits counts
// from when it saw the last renewal, one that holds it from before it asked for it.
type Lease struct {
	Cluster *Cluster
	Name    string
	// Identity is the name of this process, which no other one has.
	Identity string
	// Duration is how long the lease lasts without renewal.
	Duration time.Duration

	seen    leaseDocument
	seenAt  time.Time // when seen was first seen as it is
	renewed time.Time // when this process last asked successfully; zero if it does not hold it
}

// leaseDocument is coordination.k8s.io/v1's Lease.
type leaseDocument struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   metadata  `json:"metadata"`
	Spec       leaseSpec `json:"spec"`
}

type leaseSpec struct {
	HolderIdentity       string    `json:"holderIdentity"`
	LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
	AcquireTime          microTime `json:"acquireTime,omitzero"`
	RenewTime            microTime `json:"renewTime,omitzero"`
	LeaseTransitions     int       `json:"leaseTransitions"`
}

// microTime is a time as leases have it.
type microTime struct{ time.Time }

// microLayout has six decimals: the API server takes neither more nor fewer.
const microLayout = "2006-01-02T15:04:05.000000Z07:00"

// MarshalJSON writes the time with microseconds.
func (t microTime) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+microLayout+`"`), nil
}

// ErrLost says that another process took a lease first.
var ErrLost = errors.New("another process took the lease first")

func (l *Lease) object() *object {
	return &object{group: "coordination.k8s.io", version: "v1", plural: "leases", name: l.Name}
}

// Hold takes or renews the lease if that is due, and returns until when this process holds
// it, in the past or zero if it does not, and which process does, "" if none is known.
func (l *Lease) Hold(ctx context.Context, now time.Time) (until time.Time, holder string, err error) {
	if now.Sub(l.renewed) < l.Duration/3 {
		return l.renewed.Add(l.Duration), l.Identity, nil
	}
	err = l.ask(ctx, now)
	if errors.Is(err, ErrLost) || err == nil && l.seen.Spec.HolderIdentity != l.Identity {
		l.renewed, err = time.Time{}, nil
	}
	if l.renewed.IsZero() {
		return time.Time{}, l.seen.Spec.HolderIdentity, err
	}
	// A renewal that failed leaves what is left of the lease.
	if until = l.renewed.Add(l.Duration); now.Before(until) {
		return until, l.Identity, nil
	}
	return time.Time{}, "", err
}

// ask reads the lease, and takes it if it is free or this process's.
func (l *Lease) ask(ctx context.Context, now time.Time) error {
	var document leaseDocument
	err := l.Cluster.do(ctx, http.MethodGet, l.object(), nil, &document)
	if statusOf(err) == http.StatusNotFound {
		return l.write(ctx, http.MethodPost, leaseDocument{
			APIVersion: "coordination.k8s.io/v1",
			Kind:       "Lease",
			Metadata:   metadata{Name: l.Name, Namespace: l.Cluster.Namespace},
		}, now)
	}
	if err != nil {
		return fmt.Errorf("cannot read the lease %s: %w", l.Name, err)
	}
	if document.Metadata.ResourceVersion != l.seen.Metadata.ResourceVersion {
		l.seen, l.seenAt = document, now
	}
	lasts := time.Duration(document.Spec.LeaseDurationSeconds) * time.Second
	holder := document.Spec.HolderIdentity
	if holder != l.Identity && holder != "" && now.Sub(l.seenAt) < lasts {
		return nil
	}
	return l.write(ctx, http.MethodPut, document, now)
}

// write takes the lease for this process.
func (l *Lease) write(ctx context.Context, method string, document leaseDocument, now time.Time) error {
	s := &document.Spec
	if s.HolderIdentity != l.Identity {
		if document.Metadata.ResourceVersion != "" {
			s.LeaseTransitions++
		}
		s.HolderIdentity, s.AcquireTime = l.Identity, microTime{now}
	}
	s.LeaseDurationSeconds = max(1, int(l.Duration/time.Second))
	s.RenewTime = microTime{now}
	o := l.object()
	if method == http.MethodPost {
		o.name = ""
	}
	var written leaseDocument
	err := l.Cluster.do(ctx, method, o, &document, &written)
	if statusOf(err) == http.StatusConflict {
		return ErrLost
	}
	if err != nil {
		return fmt.Errorf("cannot take the lease %s: %w", l.Name, err)
	}
	l.seen, l.seenAt, l.renewed = written, now, now
	return nil
}

// Release gives the lease back, so that another process need not wait for its end.
func (l *Lease) Release(ctx context.Context) error {
	if l.renewed.IsZero() {
		return nil
	}
	document := l.seen
	document.Spec.HolderIdentity, document.Spec.LeaseDurationSeconds = "", 1
	l.renewed = time.Time{}
	err := l.Cluster.do(ctx, http.MethodPut, l.object(), &document, new(leaseDocument))
	if statusOf(err) == http.StatusConflict {
		return nil // another process has it
	}
	return err
}
