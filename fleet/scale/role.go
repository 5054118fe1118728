package scale

import "parley"

// A PoolPart is one part of a pool whose prompts are computed by other workers than its answers. Each
// part has a scaler of its own, which learns what one of its workers serves.
type PoolPart struct {
	Name parley.WorkerRole
	// DecodeKV is the share of blocks in use of the workers that decode.
	DecodeKV float64
}

// memoryShort is the share of blocks in use from which on requests wait for the memory of workers
// that decode, and below which they wait for those that compute prompts.
const memoryShort = 0.85

// See returns what the scaler of a part is shown, of what is seen of its workers and of the
// queue that both parts have in common. Requests that wait for the other part do not count, and
// blocks of a prompt stay with the worker that computed it only until they are fetched.
func (r PoolPart) See(state State) State {
	short := r.DecodeKV >= memoryShort
	switch r.Name {
	case parley.RolePrefill:
		state.KV = 0
		if short {
			state.Queued, state.Wait = 0, 0
		}
	case parley.RoleDecode:
		if !short {
			state.Queued, state.Wait = 0, 0
		}
	}
	return state
}
