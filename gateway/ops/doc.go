// Package ops answers the routes of operators: what the server does now and did before,
// its latest requests, its workers, keys, organisations, budgets and the audit log; and
// those that show callers what they have used. It needs an HTTP exchange and stores, and
// knows nothing of inference.
//
//	api.go            what the endpoints need
//	observe.go        what happens now and happened before; metrics and profiles
//	workers.go        workers of other processes, and what was found about prompts
//	keys.go           keys, organisations and users; budgets.go: how they stand
//	usage.go          what was used and what it cost; me.go: the caller's own
//	audit.go          the audit log; safety_events.go: what safety screens found
//	plan.go           how many GPUs a load needs
package ops
