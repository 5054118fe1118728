// Package bill reserves and settles the limits of a request's caller, and its cost. It
// knows neither HTTP nor the text of answers.
//
//	payer.go    the accounts that a request is charged to; its slot
//	slot.go     a slot: one request of a rate, one under way
//	bill.go     a generation: tokens and money reserved before it, settled after it
//	refusal.go  the errors of requests over a limit
package bill
