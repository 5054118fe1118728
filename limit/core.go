package limit

import "time"

// A Use is what a request takes of its accounts.
type Use struct {
	// Requests counts requests that have work done, Light those that only read or
	// delete what is stored.
	Requests, Light int64
	// Concurrent is how many requests are under way.
	Concurrent    int64
	Input, Output int64
	Cost          Micros
}

// Lasts reports whether some of u is released or corrected when the request ends.
// What does not last is charged by Reserve alone: a count of requests is final.
func (u *Use) Lasts() bool { return u.Concurrent != 0 || u.Input != 0 || u.Output != 0 || u.Cost != 0 }

// An Account is the usage of a key, user or organization and its limits.
type Account struct {
	Name   string
	Limits Limits
}

// A Hold is what a request reserves of its accounts while it is answered: of all
// of them or, if one refuses, of none. The caller that reserved it settles it, with the
// same Hold.
type Hold struct {
	// ID names the hold; no other has the same.
	ID string
	// Group is what its accounts have in common, such as the tenant. An
	// account is always used with the same group.
	Group    string
	Accounts []Account
	// Use is the most that the request can come to use.
	Use Use
}

// A Reason is the limit that refuses a request.
type Reason string

// The limits that can refuse.
const (
	RequestRate Reason = "requests"
	LightRate   Reason = "light requests"
	InputRate   Reason = "input tokens"
	OutputRate  Reason = "output tokens"
	Concurrency Reason = "concurrent requests"
	Budget      Reason = "budget"
)

// A Refusal is the limit that stands against a request.
type Refusal struct {
	// Refused is which limit; empty admits the request.
	Refused Reason
	// Account is whose limit, as the hold counts its accounts.
	Account int
	// Period is the time that a rate is for; 0 if the limit is not a rate.
	Period time.Duration
	// Limit is what it allows, Left what is left of it, Terms what the request
	// needs.
	Limit, Left, Terms int64
	// Wait is how long it takes until the request could be admitted if no other came;
	// negative if it never can.
	Wait time.Duration
}

// A Verdict says whether a request is admitted, and what is left of the limits.
type Verdict struct {
	Refusal
	// Requests and Tokens are the tightest of their kind, after the request. For a
	// light request, Requests is the rate of light ones.
	Requests, Tokens Level
	// Budget is how the account stands that has spent most of its own, before the
	// request.
	Budget Standing
}

// A Level is how full a bucket is.
type Level struct {
	// Limit is the size of the bucket; 0 if there is none.
	Limit, Left int64
	// Reset is when it will be full again.
	Reset time.Duration
}

// The buckets of an account, and how many it has.
const (
	bySecond = iota
	byMinute
	inputTokens
	outputTokens
	lightByMinute
	Buckets
)

// periods are the times in which an empty bucket fills, in microseconds.
var periods = [Buckets]int64{1_000_000, 60_000_000, 60_000_000, 60_000_000, 60_000_000}

var bucketReasons = [Buckets]Reason{RequestRate, RequestRate, InputRate, OutputRate, LightRate}

func (l *Limits) rates() [Buckets]int64 {
	return [Buckets]int64{
		l.RequestsPerSecond,
		l.RequestsPerMinute,
		l.InputTokensPerMinute,
		l.OutputTokensPerMinute,
		l.LightRequestsPerMinute,
	}
}

func (u *Use) amounts() [Buckets]int64 {
	return [Buckets]int64{u.Requests, u.Requests, u.Input, u.Output, u.Light}
}

// concurrencyWait is the retry time of a client with too many concurrent requests: it
// is not known when one of them will end.
const concurrencyWait = time.Second

// A State is what an account has used. The zero value has used nothing.
//
// A bucket is kept as what is missing in it, its debt, in tokens times the
// microseconds of its period. In this unit everything is a whole number: a token
// costs the period, and each microsecond releases the rate.
type State struct {
	// At is when the debts were true, in microseconds since 1970.
	At   int64
	Debt [Buckets]int64
	// Month is the one that Spent was spent in, as year·12 + month; 0 if what was
	// spent is not known yet. Held is what is reserved.
	Month       int64
	Spent, Held Micros
	// Running is how many requests are under way.
	Running int64
}

// monthOf numbers the months.
func monthOf(now time.Time) int64 {
	year, month, _ := now.UTC().Date()
	return int64(year)*12 + int64(month) - 1
}

// clockBack is how far back a clock may go without changing anything, in
// microseconds. One that goes back further was wrong before, and is believed: else
// no bucket would fill until it is there again.
const clockBack = 60_000_000

// flow brings the debts up to now, and begins a new month when it has come.
func (s *State) flow(limits *Limits, now time.Time) {
	at := now.UnixMicro()
	if s.At-at > clockBack {
		s.At = at
	}
	elapsed := max(at-s.At, 0)
	for i, rate := range limits.rates() {
		s.Debt[i] = drained(s.Debt[i], rate, elapsed)
	}
	s.At = max(s.At, at)
	if month := monthOf(now); s.Month != 0 && month > s.Month {
		s.Month, s.Spent = month, 0
	}
}

// drained is what is left of a debt after elapsed microseconds. What has no limit
// owes nothing. A debt may be of more than one period: the limit may have been
// larger when it was made.
func drained(debt, rate, elapsed int64) int64 {
	if rate == 0 || elapsed > debt/rate {
		return 0
	}
	return debt - rate*elapsed
}

// Seed says what was spent in this month before the account was known.
func (s *State) Seed(spent Micros, now time.Time) {
	if s.Month == 0 {
		s.Month, s.Spent = monthOf(now), spent
	}
}

// Refuses returns the hardest refusal of the limits on more use, after flow. It
// changes nothing. A limit does not refuse a use that takes none of it.
func (s *State) Refuses(limits *Limits, use *Use) (r Refusal) {
	amounts := use.amounts()
	for i, rate := range limits.rates() {
		if rate > 0 && amounts[i] > 0 {
			r.worse(Refusal{
				Refused: bucketReasons[i],
				Period:  time.Duration(periods[i]) * time.Microsecond,
				Limit:   rate,
				Left:    s.left(i, rate),
				Terms:   amounts[i],
				Wait:    s.wait(i, rate, amounts[i]),
			})
		}
	}
	if limit := limits.ConcurrentRequests; use.Concurrent > 0 && limit > 0 && s.Running+use.Concurrent > limit {
		r.worse(Refusal{Refused: Concurrency, Limit: limit, Terms: use.Concurrent, Wait: concurrencyWait})
	}
	if limit := limits.MonthlyBudget; use.Cost > 0 && limit > 0 && s.Spent+s.Held+use.Cost > limit {
		r.worse(Refusal{
			Refused: Budget,
			Limit:   int64(limit),
			Left:    int64(max(limit-s.Spent-s.Held, 0)),
			Terms:   int64(use.Cost),
			Wait:    -1,
		})
	}
	return r
}

// worse becomes another refusal if that is harder: one that waiting does not mend
// is the hardest.
func (r *Refusal) worse(other Refusal) {
	if other.Wait < 0 && r.Wait >= 0 || r.Wait >= 0 && other.Wait > r.Wait {
		*r = other
	}
}

// Refuse takes the refusal of an account if it is the hardest so far.
func (v *Verdict) Refuse(account int, r Refusal) {
	r.Account = account
	v.worse(r)
}

// left is how much a bucket still has.
func (s *State) left(i int, rate int64) int64 {
	return max((rate*periods[i]-s.Debt[i])/periods[i], 0)
}

// wait returns how long it takes until bucket i has amount, 0 if it has, -1 if it never
// will.
func (s *State) wait(i int, rate, amount int64) time.Duration {
	if amount > rate {
		return -1
	}
	lacks := s.Debt[i] + amount*periods[i] - rate*periods[i]
	if lacks <= 0 {
		return 0
	}
	return time.Duration((lacks+rate-1)/rate) * time.Microsecond
}

// take adds use to the debts, less what is released. Only what is limited is
// kept, and no bucket is fuller than full.
func (s *State) take(limits *Limits, use, back *Use) {
	more, less := use.amounts(), back.amounts()
	for i, rate := range limits.rates() {
		if rate > 0 {
			s.Debt[i] = max(s.Debt[i]+(more[i]-less[i])*periods[i], 0)
		}
	}
}

// reserve takes what a request may use.
func (s *State) reserve(limits *Limits, use *Use) {
	s.take(limits, use, &Use{})
	s.Running += use.Concurrent
	if limits.MonthlyBudget > 0 {
		s.Held += use.Cost
	}
}

// settle replaces what a request reserved by what it has used: as if it had
// reserved just that.
func (s *State) settle(limits *Limits, reserved, used *Use) {
	s.take(limits, used, reserved)
	s.Running = max(s.Running-reserved.Concurrent, 0)
	if limits.MonthlyBudget > 0 {
		s.Held = max(s.Held-reserved.Cost, 0)
	}
	if limits.MonthlyBudget > 0 && s.Month != 0 {
		s.Spent += used.Cost
	}
}

// Show adds what is left of an account's buckets and budget to the verdict on use.
func (s *State) Show(limits *Limits, use *Use, v *Verdict) {
	if b := s.Standing(limits); b.Budget > 0 && (v.Budget.Budget == 0 || b.Used() > v.Budget.Used()) {
		v.Budget = b
	}
	light := use.Light > 0
	for i, rate := range limits.rates() {
		level := &v.Requests
		if i == inputTokens || i == outputTokens {
			level = &v.Tokens
		} else if light != (i == lightByMinute) {
			continue
		}
		if rate == 0 {
			continue
		}
		if left := s.left(i, rate); level.Limit == 0 || left < level.Left {
			*level = Level{rate, left, time.Duration((s.Debt[i]+rate-1)/rate) * time.Microsecond}
		}
	}
}
