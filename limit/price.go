package limit

// A Price is what a million tokens cost.
type Price struct {
	Input  Micros `json:"input"`
	Cached Micros `json:"cached"`
	Output Micros `json:"output"`
}

// perMillion is how many tokens a price is for.
const perMillion = 1_000_000

// Of returns what a request costs: a whole number of millionths, rounded up once,
// so that nothing that costs is free.
func (p Price) Of(input, cached, output int64) Micros {
	sum := (input-cached)*int64(p.Input) + cached*int64(p.Cached) + output*int64(p.Output)
	return Micros((sum + perMillion - 1) / perMillion)
}

// Most returns what tokens can cost at most.
func (p Price) Most(input, output int64) Micros {
	return Price{Input: max(p.Input, p.Cached), Output: p.Output}.Of(input, 0, output)
}
