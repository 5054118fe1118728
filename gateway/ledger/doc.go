// Package ledger keeps what every request used and cost, so that the sums are
// exactly those of the requests.
//
// An [Entry] is one generation: a request of a client, or a question of our own
// such as for a title. It is written once, under its own id, before the client
// receives the end of its answer, so every complete answer is here, also after a
// crash. Requests that end together are written together.
//
//	entry.go   what is kept of a request, and where its time went
//	price.go   what tokens cost, in whole millionths
//	ledger.go  writing, and the accounts of limits over a restart
//	sum.go     what was used: by time, key, user, model
//	alerts.go  which budget alerts were sent, and by which gateway
//	teller.go  claims budget alerts and sends them; webhook.go posts them
package ledger
