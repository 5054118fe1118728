package openaigo

import (
	"context"
	"errors"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	inFlight  = "parley_requests_in_flight"
	cancelled = `parley_finish_total{reason="cancelled"}`
)

// endless asks for an answer that takes much longer than a test waits.
func endless() (openai.ChatCompletionNewParams, option.RequestOption) {
	body := ask("Tell me a long story.")
	body.Model, body.MaxTokens = polly, openai.Int(1900)
	return body, option.WithJSONSet("ignore_eos", true)
}

func testCancelStream(t *testing.T, s *server) {
	before := s.metric(t, cancelled)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, more := endless()
	stream := s.client().Chat.Completions.NewStreaming(ctx, body, more)
	defer stream.Close()
	for chunks := 1; stream.Next(); chunks++ {
		if chunks == 5 {
			if n := s.metric(t, inFlight); n != 1 {
				t.Errorf("%v requests in flight, expected 1", n)
			}
			cancel()
		}
	}
	if !errors.Is(stream.Err(), context.Canceled) {
		t.Errorf("the stream ended with %v", stream.Err())
	}
	s.waitForMetric(t, inFlight, 0)
	if n := s.metric(t, cancelled); n != before+1 {
		t.Errorf("%v cancelled requests, expected %v", n, before+1)
	}
}

func testCancelWhole(t *testing.T, s *server) {
	before := s.metric(t, cancelled)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		body, more := endless()
		_, err := s.client().Chat.Completions.New(ctx, body, more)
		done <- err
	}()
	s.waitForMetric(t, inFlight, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the answer ended with %v", err)
	}
	s.waitForMetric(t, inFlight, 0)
	if n := s.metric(t, cancelled); n != before+1 {
		t.Errorf("%v cancelled requests, expected %v", n, before+1)
	}
}
