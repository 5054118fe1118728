package main

import (
	"context"
	"log/slog"
	"time"

	"parley/gateway/safety"
)

// safetySettings are about what is allowed.
var safetySettings = []setting{
	{key: "safety-policy", wants: "a file", set: setText(func(s *settings) *string { return &s.safetyPolicy }),
		help: "screen prompts and answers by this YAML `FILE`, reloaded when it changes (default: flag only)"},
}

// policyEvery is how often the file of the policy is looked at.
const policyEvery = 2 * time.Second

// openSafety reads the policy and keeps up with its file until stop is called.
func openSafety(ctx context.Context, s *settings, log *slog.Logger) (keeper *safety.Keeper, stop func(), err error) {
	if s.safetyPolicy == "" {
		return safety.NewKeeper(nil), func() {}, nil
	}
	book, err := safety.ReadBook(s.safetyPolicy)
	if err != nil {
		return nil, nil, err
	}
	keeper = safety.NewKeeper(book)
	stop = inBackground(ctx, func(ctx context.Context) { keeper.Watch(ctx, s.safetyPolicy, policyEvery, log) })
	return keeper, stop, nil
}
