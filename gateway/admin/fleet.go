package admin

import "parley"

// A Fleet is the door to workers in other processes, for those who run the
// server. Its functions may be called at any time.
type Fleet struct {
	// Workers says who is there, and how they are.
	Workers func() []Worker
	// Findings says which prompts stopped being found in caches, the latest last.
	Findings func() []Finding
	// Drain lets a worker finish what it has and gives it nothing new; Resume gives
	// it work again. Sleep has it give its memory back when it has nothing to do,
	// Wake take it again; it is woken, too, when somebody asks for its model and
	// nobody else has it. Errors are [parley.Error].
	Drain, Resume, Sleep, Wake func(name string) error
}

// A Finding is a family of prompts that used to be found in caches and no longer
// is, because something near their beginning changes from one to the next.
type Finding struct {
	// At is in seconds since 1970.
	At     int64  `json:"at"`
	Model  string `json:"model"`
	Tenant string `json:"tenant"`
	Family string `json:"family"`
	// HitsBefore and HitsNow are the parts of the prompts that were found.
	HitsBefore float64 `json:"hits_before"`
	HitsNow    float64 `json:"hits_now"`
	// The change lies between tokens From and To; To is 0 if it goes on to the end.
	// Prompts agreed for StableTokens before.
	From         int `json:"from"`
	To           int `json:"to"`
	StableTokens int `json:"stable_tokens"`
	// Was and Now are examples of what stands there, WasText and NowText how they
	// read.
	Was     []parley.Token `json:"was"`
	Now     []parley.Token `json:"now"`
	WasText string         `json:"was_text"`
	NowText string         `json:"now_text"`
	Text    string         `json:"text"`
}
