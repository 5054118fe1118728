// Package limit decides what a caller may use: requests, tokens, answers at a
// time, and money.
//
// A request reserves what it may need before any work is done for it: its
// prompt, a likely length of its answer, and what both would cost. When it has
// ended, its actual usage is settled and the rest released. So concurrent callers
// cannot exceed a limit together.
//
// Rates are token buckets that fill evenly: a limit of 60 a minute admits 60 at once
// and then one each second. Over any time t at most limit + limit·t/period are
// admitted. Budgets are for a calendar month, in UTC.
//
//	limits.go       the kinds of limits
//	core.go         the arithmetic of one account: whole numbers only
//	accounts.go     accounts by their names
//	reservation.go  what one answer reserves, also while it grows
//	estimate.go     how long answers are
//	price.go        what tokens cost
//	budget.go       the state of an account's budget, and whether to alert
package limit
