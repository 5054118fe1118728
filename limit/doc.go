// Package limit decides what a caller may use: requests, tokens, answers at a
// time, and money.
//
// A request reserves what it may need before any work is done for it: its
// prompt, a likely length of its answer, and what both would cost. When it has
// ended, what it really used is settled and the rest given back. So callers that
// come at the same moment cannot pass a limit together.
//
// Rates are buckets that fill evenly: a limit of 60 a minute lets 60 pass at once
// and then one each second. Over any time t not more than limit + limit·t/period
// gets through. Budgets are of a calendar month, in UTC.
//
//	limits.go       what may be limited
//	core.go         the arithmetic of one account: whole numbers only
//	accounts.go     accounts by their names
//	reservation.go  what one answer reserves, also while it grows
//	estimate.go     how long answers are
//	price.go        what tokens cost
//	budget.go       how an account stands with its budget, and whether that is news
package limit
