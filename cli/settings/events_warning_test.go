package settings

import (
	"strings"
	"testing"
)

// TestEventsWarning names the risk of sockets that other machines reach.
func TestEventsWarning(t *testing.T) {
	for _, c := range []struct {
		w    Worker
		want string
	}{
		{Worker{}, ""},
		{Worker{Events: "127.0.0.1:5557"}, ""},
		{Worker{Events: "0.0.0.0:5557"}, "which blocks are cached"},
		{Worker{Events: ":5557", EventTokens: true}, "thus the prompts"},
		{Worker{Events: "127.0.0.1:5557", Replay: "10.0.0.7:5558"}, "WARNING"},
	} {
		got := (&Settings{Worker: c.w}).EventsWarning()
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q", c.w, got)
		}
	}
}
