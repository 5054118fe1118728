package job

import (
	"context"

	"parley/gateway/bill"
	"parley/gateway/models"
	"parley/gateway/record"
	"parley/gateway/revoke"
	"parley/gateway/screening"
	"parley/limit"
)

// A Job is one inference in the name of a caller, who is named by its record. It is
// used by one goroutine at a time.
type Job struct {
	// Record is what is kept of the request.
	Record *record.Request
	server *Server
	payer  *bill.Payer
	// work is what a revocation of the caller's key ends.
	work      revoke.Work
	screening screening.Screening
	// bill is that of the newest generation.
	bill  *bill.Bill
	hooks Hooks
	share shareTerms
}

// Hooks are what a job says to its client, before the answer, and asks of it; each may
// be nil.
type Hooks struct {
	// Limits is told what is left of the caller's limits.
	Limits func(*limit.Verdict)
	// Dropped is told how many messages the model is not shown.
	Dropped func(messages int)
	// Recheck reports whether the caller may still call, after a wait.
	Recheck func() error
}

// Finish lets go of what a job holds, and completes its record.
func (j *Job) Finish(ctx context.Context, end record.End) {
	j.payer.Release()
	j.screening.Finish()
	j.work.Done()
	j.server.Records.Finish(ctx, j.Record, end)
}

// Model returns the model that the caller named, as far as it may use it.
func (j *Job) Model(name string) (*models.Model, error) {
	return j.server.Models.Find(j.Record.Who, name)
}

// Tier returns what the conversations of the caller may hold.
func (j *Job) Tier() models.TierContext { return j.server.Tiers[j.Record.Who.Tier] }

// TakeSlot counts the request of a caller that is identified, or refuses it. Light
// requests only touch what is stored.
func (j *Job) TakeSlot(ctx context.Context, light bool) error { return j.payer.TakeSlot(ctx, light) }

// ReleaseSlot releases the slot of a request that is over. It is safe to call it
// again.
func (j *Job) ReleaseSlot() { j.payer.Release() }

// CountEndUser counts the request for the user whom its body names, if there are limits
// for those.
func (j *Job) CountEndUser(ctx context.Context, body []byte) error {
	return j.payer.CountEndUser(ctx, body)
}

// Revocable lets cancel end the work if the caller's key is revoked. A later cancel
// takes the place of an earlier one, until the job has finished.
func (j *Job) Revocable(ctx context.Context, cancel context.CancelCauseFunc) {
	j.work.Register(ctx, j.Record.Who.Key, cancel)
}

// Settle charges the newest generation as far as it has come, if it is not settled.
func (j *Job) Settle() { j.bill.Close() }

// Void releases what was reserved for the newest generation: its answer was there.
func (j *Job) Void() { j.bill.Void() }

// shareTerms say what of a job's answer may be shared.
type shareTerms struct {
	// private answers are neither taken from the cache nor put into it; fresh ones are
	// not taken from it.
	private, fresh bool
	// seeded jobs name their own seed; public ones open with a prompt that the
	// operator made public.
	seeded, public bool
	// salt is the client's own.
	salt string
}

// Uncached keeps the answer from being shared: private ones are not put into the cache,
// and fresh ones not taken from it.
func (j *Job) Uncached(private, fresh bool) { j.share.private, j.share.fresh = private, fresh }
