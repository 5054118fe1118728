// Package route picks a worker for a request, and says why.
//
// It filters: the worker must serve the model in the request's pool, be healthy
// and have room for the context that the request may grow to. It scores: how
// many tokens would have to be computed there, because it does not hold them,
// and how much other work it has, in the same unit. It picks the least score;
// among near ties, the less loaded of two taken at random, so that gateways
// which see the same numbers do not all run to one worker.
//
// A conversation stays with its worker because that worker holds its context,
// which is all the affinity there is. Two things keep that from becoming a hot
// spot. Work routed to a worker counts against it for some time, with little
// weight, so that of equals the least loaded wins. And a worker that has had
// more than its share, over the last minute or over the last half hour, gets
// nothing but what all the others could not take either: a prompt that
// all requests begin with is soon held by as many workers as its load needs.
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
// [Watch] looks at the other end: prompts that used to be found and no longer
// are, because something in them changes all the time.
//
// The package is pure: it takes now, and what is random comes from a seed. It
// is not safe for concurrent use.
package route
