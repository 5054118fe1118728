package discover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// An Announcer registers a worker at a gateway's [Registrar].
type Announcer struct {
	// Gateway is the gateway's URL, Token its join token.
	Gateway, Token string
	// Said is what the worker says of itself.
	Said Registration
	// Accept is told of each credential that the gateway gives out; the worker must
	// answer requests that show it when Accept has returned.
	Accept func(credential string)
	// Client reaches the gateway; nil is a plain one. Its redirects are not followed.
	Client *http.Client
	Log    *slog.Logger

	credential string
}

const (
	announceMax   = 2 * time.Second
	announceAgain = time.Second
)

// errUnknown says that the gateway does not know the token or credential.
var errUnknown = errors.New("the gateway rejected it")

// Run registers the worker again and again until ctx ends; then it leaves.
func (a Announcer) Run(ctx context.Context) {
	client := http.Client{}
	if a.Client != nil {
		client = *a.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a.Client, a.Log = &client, orDefault(a.Log)
	for trouble := ""; ctx.Err() == nil; {
		wait, err := a.register(ctx)
		if err != nil {
			wait = announceAgain
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && err.Error() != trouble:
			a.Log.Warn("gateway rejected registration; retrying", "gateway", a.Gateway, "error", err)
			trouble = err.Error()
		case err == nil:
			trouble = ""
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceMax)
	defer cancel()
	if a.credential != "" {
		_, _ = a.call(bounded, http.MethodDelete, a.credential) // it would be forgotten anyway
	}
}

// register joins, or stays, and returns when to do so again. A gateway that no longer
// knows the credential, because it was started anew, is joined again at once.
func (a *Announcer) register(ctx context.Context) (again time.Duration, err error) {
	var good registration
	if a.credential != "" {
		good, err = a.call(ctx, http.MethodPost, a.credential)
		if err == nil || !errors.Is(err, errUnknown) {
			return due(good), err
		}
		a.credential = ""
	}
	if good, err = a.call(ctx, http.MethodPost, a.Token); err != nil {
		return 0, err
	}
	if good.Credential == "" {
		return 0, errors.New("the gateway sent no credential")
	}
	a.Accept(good.Credential)
	a.credential = good.Credential
	good, err = a.call(ctx, http.MethodPost, a.credential) // from now on it may be called
	return due(good), err
}

// due is when a registration must be repeated.
func due(r registration) time.Duration {
	return max(time.Duration(r.ExpiresIn/3*float64(time.Second)), announceAgain/10)
}

// call sends the registration with a token.
func (a *Announcer) call(ctx context.Context, method, token string) (good registration, err error) {
	body, err := json.Marshal(a.Said)
	if err != nil {
		return good, err
	}
	ctx, cancel := context.WithTimeout(ctx, announceMax)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(a.Gateway, "/")+"/fleet/register",
		bytes.NewReader(body))
	if err != nil {
		return good, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := a.Client.Do(request)
	if err != nil {
		return good, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, deskBytesMax))
	switch {
	case err != nil:
		return good, err
	case response.StatusCode == http.StatusUnauthorized:
		return good, fmt.Errorf("%w: %s", errUnknown, bytes.TrimSpace(text))
	case response.StatusCode != http.StatusOK:
		return good, fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	return good, json.Unmarshal(text, &good)
}
