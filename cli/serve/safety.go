package serve

import (
	"context"
	"log/slog"
	"time"

	"parley/cli/settings"
	"parley/gateway/safety"
)

// policyEvery is how often the file of the policy is looked at.
const policyEvery = 2 * time.Second

// openSafety reads the policy and keeps up with its file until stop is called.
func openSafety(ctx context.Context, s *settings.Settings, log *slog.Logger) (keeper *safety.Keeper, stop func(),
	err error) {
	if s.SafetyPolicy == "" {
		return safety.NewKeeper(nil), func() {}, nil
	}
	book, err := safety.ReadBook(s.SafetyPolicy)
	if err != nil {
		return nil, nil, err
	}
	keeper = safety.NewKeeper(book)
	stop = inBackground(ctx, func(ctx context.Context) { keeper.Watch(ctx, s.SafetyPolicy, policyEvery, log) })
	return keeper, stop, nil
}
