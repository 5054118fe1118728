package job

import (
	"context"

	"parley/gateway/bill"
	"parley/gateway/record"
)

// New returns the job of a request, whose caller need not be identified yet.
func (s *Server) New(r *record.Request, hooks Hooks) *Job {
	j := &Job{
		Record: r,
		server: s,
		payer:  s.Bills.Open(r, bill.Hooks{Limits: hooks.Limits, Recheck: hooks.Recheck}),
		work:   s.Revocations.Begin(),
		hooks:  hooks,
	}
	j.screening = s.Screens.For(r, j.askGuard)
	return j
}

// Again returns the job of another request of the same client, with a record of its
// own: as when several come over one connection.
func (j *Job) Again(r *record.Request, hooks Hooks) *Job {
	next := j.server.New(r, hooks)
	next.work, next.share = j.work.Next(), j.share
	return next
}

// Beside returns the job of a question of the server's own that is asked for j, such as
// for a title: under its own name and with its own record, so that what it costs is
// counted and the client's record stays its own.
func (j *Job) Beside(what string) *Job {
	r := j.Record.Beside(what)
	return &Job{
		Record:    r,
		server:    j.server,
		payer:     j.payer.Beside(r),
		screening: j.server.Screens.Unseen(r),
		share:     j.share,
	}
}

// Continue returns a job that continues when j has ended: under the same names and in
// its slot, with a context of its own. Cancel ends that context, and is called when its
// key is revoked. The caller must call end.
func (j *Job) Continue(
	ctx context.Context, cancel context.CancelCauseFunc,
) (next *Job, end context.CancelCauseFunc) {
	r := j.Record.Continue()
	next = &Job{
		Record: r,
		server: j.server,
		payer:  j.payer.Continue(r),
		work:   j.work.Next(),
		share:  j.share,
	}
	next.screening = j.server.Screens.For(r, next.askGuard)
	next.Revocable(ctx, cancel)
	return next, func(why error) {
		cancel(why)
		next.payer.Release()
		next.work.Done()
	}
}
