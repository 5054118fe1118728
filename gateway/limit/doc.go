// Package limit keeps what a caller may use: requests, tokens, answers at a
// time, and money.
//
// A request reserves what it may need before any work is done for it: its
// prompt, the longest answer it may get, and what both would cost. When it has
// ended, what it really used is settled and the rest given back. So callers that
// come at the same moment cannot pass a limit together.
//
// Rates are buckets that fill evenly: a limit of 60 a minute lets 60 pass at once
// and then one each second. Over any time t not more than limit + limit·t/period
// gets through. Budgets are of a calendar month, in UTC.
//
//	limits.go    what may be limited
//	core.go      the arithmetic of one account: pure, whole numbers only
//	budget.go    how an account stands with its budget, and whether that is news: pure but for the Watch
//	book.go      accounts in the memory of one process
//	redis.go     accounts that several gateways share, by the script book.lua
//	redis_down.go  what happens while Redis is out of reach
package limit
