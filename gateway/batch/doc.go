// Package batch keeps files and batches on disk, and works batches off: each
// line of an input file is a request, each line of an output file its answer.
//
// [Store] is where they lie, [Runner] what answers them, through a function that
// it is given. It knows nothing of HTTP or models. The files to read, in order:
//
//	store.go     the directory: what is there at all, and how it gets there
//	files.go     files: taken in, listed, read, removed
//	batches.go   batches: created, listed, cancelled
//	lines.go     input files: what is a good one
//	journal.go   results as they come, and what a crash leaves of them
//	runner.go    batches from validating to the end
//
// These things hold at all times:
//
//   - A file is complete or not there: it is written under another name, synced
//     and renamed, and what is said of it follows.
//   - A batch is one small file that is replaced as a whole, so it is in one state
//     or in the next.
//   - Every line of a batch has one result, in the output or in the error file,
//     however often the process ends in between. Results are appended as they
//     come, under the line's custom_id; a process that takes the batch up again
//     cuts off what is not a whole line and answers what has no result.
//   - One process works on a directory; see [ErrInUse].
package batch
