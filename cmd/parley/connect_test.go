package main

import (
	"strings"
	"testing"

	"parley/internal/clientconfig"
)

// TestAgentsNeedRoom refuses models whose context cannot hold an agent's own prompt.
func TestAgentsNeedRoom(t *testing.T) {
	for _, a := range apps {
		for context, fits := range map[int]bool{0: true, 2048: a.promptTokens == 0, 40960: true} {
			err := a.fits(clientconfig.Model{ID: "m", ContextTokens: context})
			if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "a context of 2048 tokens") {
				t.Errorf("%s with a context of %d: %v", a.name, context, err)
			}
		}
	}
}
