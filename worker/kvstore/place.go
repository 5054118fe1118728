package kvstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// A place is where values are kept. Its methods are safe for concurrent use, give up when ctx
// ends, and return errors that [reasonOf] understands.
type place interface {
	// read reads values of len(into)/len(keys) bytes each, one after the other. It returns how
	// many of the first ones are there and came whole; without an error the next one is not there.
	read(ctx context.Context, keys []string, into []byte) (n int, err error)
	// renew reports which keys are there, and has those live as long as if they were new.
	renew(ctx context.Context, keys []string) (there []bool, err error)
	write(ctx context.Context, key string, value []byte) error
	remove(ctx context.Context, key string) error
	// name is what people call it, without secrets; latency is how long an answer takes, as
	// long as that was not measured.
	name() string
	latency() time.Duration
	close() error
}

// Faults of places, by the word that is shown for them.
var (
	errRefused = errors.New("refused")
	errFull    = errors.New("full")
	errBusy    = errors.New("busy")
	errDamaged = errors.New("damaged")
	errCutOff  = errors.New("cut off")
	errFailing = errors.New("failing")
)

// A fault is an error of a place: what kind it is of, and its own words.
type fault struct{ kind, err error }

func (f *fault) Error() string   { return f.kind.Error() + ": " + f.err.Error() }
func (f *fault) Unwrap() []error { return []error{f.kind, f.err} }

// reasonOf returns in a word or two why a place did not do what it should; empty for no error.
func reasonOf(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	timeout, ok := errors.AsType[net.Error](err) // a connection may notice it before ctx does
	if ok && timeout.Timeout() || errors.Is(ctx.Err(), context.DeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) {
		return "too slow"
	}
	if ctx.Err() != nil {
		return "cancelled"
	}
	for _, kind := range []error{errRefused, errFull, errBusy, errDamaged, errCutOff, errFailing} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "unreachable"
}

// keepDefault is how long Redis keeps a block that is not renewed.
const keepDefault = 24 * time.Hour

// CheckURL reports what is wrong with the URL of a store.
func CheckURL(text string) error {
	p, err := openPlace(text, keepDefault, func(string) string { return "x" })
	if err != nil {
		return err
	}
	return p.close()
}

// openPlace returns the place of a URL. It does not connect. getenv returns what a URL of a
// bucket leaves to the environment.
func openPlace(text string, keep time.Duration, getenv func(string) string) (place, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is not a URL") // its own error has the password in it
	}
	switch u.Scheme {
	case "redis", "rediss", "valkey", "valkeys", "unix", "redis-cluster", "rediss-cluster", "valkey-cluster",
		"valkeys-cluster":
		return openRedis(u, keep)
	case "s3":
		return openBucket(u, getenv)
	}
	return nil, fmt.Errorf("%q is not a kind of store: use redis://, rediss://, redis-cluster:// or s3://", u.Scheme)
}
