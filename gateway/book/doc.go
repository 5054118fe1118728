// Package book keeps what callers have used of their limits, as package limit decides.
//
//	book.go        accounts in the memory of one process
//	redis.go       accounts that several gateways share, by the script book.lua
//	redis_down.go  what happens while Redis is out of reach
//	watch.go       alerts for budgets that are nearly spent
package book
