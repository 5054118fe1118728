// Package index measures the router's index of blocks: how many blocks of
// events it takes in a second on one processor, how long a lookup and the hashing
// before it last, what a block costs in memory, and what an idle index costs.
//
// What bounds an index of millions of blocks is memory: a block's place in a table
// cannot be foreseen, so each table that an operation must look at costs it one
// line of memory. The floor beside a measurement is what this machine takes to
// deliver those lines, read at random from as much memory and as many at a time
// as it can.
package index
