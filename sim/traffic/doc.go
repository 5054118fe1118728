// Package traffic says what load looks like: when requests arrive, how long
// their prompts and answers are, and which prompts begin with the same tokens.
// The load generator sends these requests to real servers and the simulator
// feeds them to virtual ones, so both speak of the same load.
//
// A [Request] does not hold a prompt but describes it as [Part]s. A part is a
// key and a length; [Content] turns it into token ids or words. Equal keys
// give equal content, so a prefix cache sees just the sharing that the
// workload means: a system prompt that a group of users has in common, the
// history of a conversation, or a block of a recorded trace. Parts of
// different keys differ within their first few tokens, however many keys there
// are, so nothing is shared by accident.
//
//   - [Gaps] are the times between events: arrivals of an open loop, or the
//     thinking of a user in a closed one.
//   - [Length] is a distribution of token counts.
//   - [Workload] makes requests: independent ones, groups of users with a
//     shared system prompt, or conversations of several turns.
//   - [Replay] makes requests from the rows of a recorded trace, whose prefix
//     sharing it rebuilds from block hashes, and scales them in length and time
//     to fit a smaller server.
//
// The package is pure: it reads no clock and no file, and everything random
// comes from a seed, so the same numbers give the same load.
package traffic
