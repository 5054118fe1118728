// Package route picks a worker for a request, and says why.
//
// It filters: the worker must serve the model in the request's pool, be healthy
// and have room for the context that the request may grow to. It scores: how
// many tokens it would have to compute, because it has not cached them, and how
// much other work it has, in the same unit. It picks the lowest score; among near
// ties, the less loaded of two random workers, so that gateways which see the
// same numbers do not all choose the same worker.
//
// A conversation stays with its worker only because that worker has cached its
// context. Two rules prevent hot spots. Work routed to a worker counts against it
// for some time, with little weight, so that among equals the least loaded one
// wins. And a worker that has had more than its share, over the last minute or the
// last half hour, gets only requests that no other worker can take: so a prefix
// that all requests share is soon cached by as many workers as its load needs.
// The same holds for workers whose memory is filled by running requests beyond
// the high watermark.
//
// Where nothing is known about a prompt's blocks, because the worker takes text
// and not tokens, requests with one key go to one worker by consistent hashing,
// within the same bounds.
//
// A worker that was picked although another one holds more of the prompt may fetch the
// blocks from there instead of computing them: [Router.Fetch] decides by time.
//
// [Watch] finds prompts that used to hit the cache and no longer do, because
// something in them changes with every request.
//
// The package is pure: it takes now as a parameter, and random numbers from a seed. It
// is not safe for concurrent use.
package route
