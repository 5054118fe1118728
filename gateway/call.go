package gateway

import (
	"parley/gateway/batch"
	"parley/gateway/exchange"
	"parley/gateway/hijack"
	"parley/gateway/limit"
)

// A call is an exchange on its way through the gateway, with what is known of its
// inference.
type call struct {
	*exchange.Exchange
	gateway *Gateway
	// access is the access class of the route.
	access access
	// round is that of the revocations in which the caller was identified; revoke
	// is set while the call's work can be ended by one.
	round  uint64
	revoke *revocable
	// author is in whose name a call is made that did not come over the network.
	author *batch.Author
	// beside calls are questions of our own, such as for a title.
	beside bool
	// socket is where the answer goes if the request came by a WebSocket.
	socket *socket
	// detached is set if the call can continue after its handler, and rest is what is
	// left to do then.
	detached *hijack.DetachedStream
	rest     func() error
	// seeded calls name their own seed; public ones open with a prompt that the
	// operator made public.
	seeded, public bool
	// screening is the safety policy of the call, once its prompt was judged.
	screening screening
	// slot is the call's place in its caller's limits of requests, accounts what is
	// charged for it; light calls only touch what is stored.
	slot     *slot
	accounts []limit.Account
	light    bool
	// bill is that of the newest generation, of bills.
	bill  *bill
	bills int
}
