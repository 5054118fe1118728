package worker

import (
	"context"
	"io"

	"parley"
)

// Sleep has the engine give its memory back. It lets running answers finish
// first, and has returned when nothing is held any more.
func (r *Remote) Sleep(ctx context.Context) error { return r.rest(ctx, "/sleep?level=1&mode=wait") }

// Wake has the engine take its memory again. It returns when requests are
// answered.
func (r *Remote) Wake(ctx context.Context) error { return r.rest(ctx, "/wake_up") }

func (r *Remote) rest(ctx context.Context, path string) error {
	if !PromisesOf(r.cfg.Kind).Sleep {
		return parley.Errorf(parley.Conflict, "worker %s is a %s server, which does not support sleep", r.cfg.URL,
			r.cfg.Kind)
	}
	resp, err := r.sendBy(ctx, r.patient, path, struct{}{})
	if parley.CodeOf(err) == parley.NotFound {
		return parley.Errorf(parley.Conflict,
			"worker %s has no routes for sleep: vLLM has them with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1",
			r.cfg.URL)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, io.LimitReader(resp.Body, answerMax)); err != nil {
		return r.unreachable(ctx, err)
	}
	return nil
}
