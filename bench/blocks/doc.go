// Package blocks measures how fast keys and values move between two workers on one machine:
// one process gives blocks from its memory, another fetches them into its own, as workers
// do. The floor beside it is a plain copy of the same bytes over a TCP connection between
// the same two processes, without names, checksums or frames. Fetches are made over TCP, as from
// another host, and through shared memory, as workers on one host do.
//
// All are measured in turn, so that what else the machine does meets all of them.
package blocks
