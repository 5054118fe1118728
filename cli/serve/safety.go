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
func openSafety(ctx context.Context, s *settings.Settings, log *slog.Logger) (policies *safety.Policies, stop func(),
	err error) {
	if s.SafetyPolicy == "" {
		return safety.NewPolicies(nil), func() {}, nil
	}
	book, err := safety.ReadBook(s.SafetyPolicy)
	if err != nil {
		return nil, nil, err
	}
	policies = safety.NewPolicies(book)
	stop = inBackground(ctx, func(ctx context.Context) { policies.Watch(ctx, s.SafetyPolicy, policyEvery, log) })
	return policies, stop, nil
}
