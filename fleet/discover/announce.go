package discover

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Announce registers a worker at a gateway's [Desk], again and again, until ctx
// ends; then it says goodbye. client may be nil.
func Announce(ctx context.Context, gateway, token string, r Registration, client *http.Client, log *slog.Logger) {
	if client == nil {
		client = http.DefaultClient
	}
	log = orDefault(log)
	a := announcer{client: client, at: strings.TrimRight(gateway, "/") + "/fleet/register", token: token, said: r}
	trouble := ""
	for ctx.Err() == nil {
		wait, err := a.call(ctx, http.MethodPost)
		switch {
		case ctx.Err() != nil:
		case err != nil && err.Error() != trouble:
			log.Warn("a gateway does not take this worker; it is asked again and again", "gateway", gateway, "error", err)
			trouble = err.Error()
		case err == nil:
			trouble = ""
		}
		if err != nil {
			wait = announceAgain
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
	_, _ = a.call(bounded, http.MethodDelete) // it would be forgotten anyway
}

const (
	announceMax   = 2 * time.Second
	announceAgain = time.Second
)

type announcer struct {
	client    *http.Client
	at, token string
	said      Registration
}

// call tells the desk, and returns when to do so again.
func (a *announcer) call(ctx context.Context, method string) (again time.Duration, err error) {
	body, err := json.Marshal(a.said)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, announceMax)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, a.at, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, deskBytesMax))
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	var good struct {
		For float64 `json:"expires_in"`
	}
	if err := json.Unmarshal(text, &good); err != nil {
		return 0, err
	}
	return max(time.Duration(good.For/3*float64(time.Second)), announceAgain/10), nil
}
