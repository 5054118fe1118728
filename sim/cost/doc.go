// Package cost says how long a forward pass takes without computing one.
//
// A [Pass] is what makes a pass long: the rows it computes, the sequences they belong
// to, the positions of keys and values that are read, and the positions that rows
// look back on. A [Model] turns that into a time:
//
//	overhead + sequence*sequences + arithmetic + memory
//	arithmetic = rows(n) + lookback*positions looked back on
//	memory     = weights + read*positions read
//
// where rows(n) is a table with straight lines between its entries, and the greater of
// arithmetic and memory stands in place of their sum where they overlap. A model comes
// from one of three places, and has the same form from each:
//
//   - [Roofline]: the data sheet of a device and the shape of a model. Arithmetic and
//     memory overlap.
//   - A table, written by hand from measurements of others.
//   - [Fit]: passes that were measured. It says how far it is off on passes that it has
//     not seen.
//
// The package is pure.
package cost
