package fleet

import (
	"context"
	"encoding/json"
	"time"

	"parley"
	"parley/route/kvindex"
)

// A Member is a worker as it joins a fleet: who computes, and what is known of
// it. Only Name, Pool and Worker are needed.
type Member struct {
	// Name is for people and must be unique; Pool is where it stands; Kind is what
	// it is, such as parley or vllm.
	Name, Pool, Kind string
	// Worker computes. Its models are asked for when it joins; its probes may tell of
	// others later.
	Worker parley.Worker
	// BlockTokens is the size of its blocks, 0 if unknown, CapacityTokens how much
	// context its memory holds, and Source what it reports about its blocks.
	BlockTokens, CapacityTokens int
	Source                      kvindex.Source
	// SourceOf is the same for one of several models; nil if events do not tell
	// whose blocks they are about.
	SourceOf func(model string) kvindex.Source
	// TextOnly workers do not return token ids, so that an answer which they have
	// begun cannot be moved. Resume says how they resume one begun elsewhere.
	TextOnly bool
	Resume   Resuming
	// TurnsOnly workers take conversations and no other prompts, so that not even a client can
	// have an answer continued.
	TurnsOnly bool
	// Withdraws: it begins requests of a higher class first, and gives one back that it
	// has not begun when it is asked to; see [parley.Withdrawal].
	Withdraws bool
	// Blocks says how other workers fetch blocks from the process of an instance until a
	// time; nil if they cannot.
	Blocks func(instance string, until time.Time) parley.BlockSource
	// LearnFrom gives it what other workers have observed of how soon blocks are used again, in
	// the bytes of their engines, and returns what it has observed itself; nil if it cannot.
	LearnFrom func(ctx context.Context, others [][]byte) (own []byte, err error)
	// Divides names how its engine, a foreign one, moves keys and values between two workers
	// that share a request; empty if it does not. Meet returns what both are told when the
	// other one decodes and they are asked at once; nil if this one is asked first and says
	// what the other is told. A worker that meets others does its part of requests alone.
	Divides string
	Meet    func() json.RawMessage
	// Probe asks how it is. Without it, only requests show.
	Probe func(ctx context.Context) (Condition, error)
	// Follow passes its events on until ctx ends or they are lost. It is called
	// again then.
	Follow func(ctx context.Context, to *Feed) error
	// Sleep has it give its memory back, Wake take it again; nil if it cannot. Both
	// return when that is done.
	Sleep, Wake func(ctx context.Context) error
	// Close is called after it has left and its last answer has ended.
	Close func() error
}

// rename gives the worker the name that it has here.
func (m *Member) rename(name string) { m.Name = name }

// unfollow has none of its events followed.
func (m *Member) unfollow() { m.Follow = nil }

// mute notes that its events say nothing: whose blocks they are about is not known.
func (m *Member) mute() { m.Source.Events, m.Source.Replay, m.Source.Snapshot = false, false, false }

// A Condition is what a worker says of itself.
type Condition struct {
	// Draining workers finish what they have and want nothing new.
	Draining bool
	// MoveWithin is after what time its answers must have moved when it is draining; 0 if
	// they all may finish.
	MoveWithin time.Duration
	// Sleeping workers have given their memory back.
	Sleeping bool
	// Instance names the process: another name is a new one, which holds nothing.
	Instance string
	// Models are those it has now; none if it does not say.
	Models []parley.Model
	// What a [route.Status] and a [Member] say; 0 if it is not known.
	UsedTokens, WaitingTokens, Running, CapacityTokens int
	// Format names what the bytes of its blocks depend on, empty if they cannot be moved,
	// BlockBytes is their size, and Place where it can share memory with others; empty if it cannot.
	Format     string
	BlockBytes int
	Place      string
	// Role is what it should do of requests.
	Role parley.WorkerRole
	// Seats is how many requests it computes at once, 0 if it does not say; Waiting
	// counts those that wait in it.
	Seats, Waiting int
	// What only people want to know: its program's version, how long it has computed,
	// how often a request lost its memory, how long its model took to load.
	Version      string
	BusySeconds  float64
	Preemptions  uint64
	ReadySeconds float64
	// Device is its GPU, nil without one or if it does not say.
	Device *parley.DeviceState
}

// A State is what is to be expected of a worker.
type State string

// The states of a worker.
const (
	// Absent: it is known and could not join. It is asked again.
	Absent State = "absent"
	// Joining: it has not answered a probe yet.
	Joining State = "joining"
	// Up: it gets work.
	Up State = "up"
	// Draining: it finishes what it has.
	Draining State = "draining"
	// Down: it does not answer. It is asked on.
	Down State = "down"
	// Failing: it answers with errors, and its breaker is open.
	Failing State = "failing"
	// Asleep: it has released its memory, and is woken when no other worker can answer.
	Asleep State = "asleep"
	// Waking: it is taking its memory again.
	Waking State = "waking"
	// Warming: it fetches what other workers were asked for lately, before it gets work.
	Warming State = "warming"
)
