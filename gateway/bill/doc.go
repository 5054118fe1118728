// Package bill is what a request takes of its caller's limits, and what it costs. It
// knows neither HTTP nor what the answer says.
//
//	payer.go    what a request is charged to; a slot while it is under way
//	slot.go     a slot: one request of a rate, one under way
//	bill.go     a generation: tokens and money reserved before it, settled after it
//	refusal.go  what a caller is told that a limit refuses
package bill
