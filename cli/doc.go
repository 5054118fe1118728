// Package cli has what the commands of parley share: errors that become exit codes,
// arguments and their completion, output as JSON, files that are written whole, a
// progress bar, and which program this is.
package cli
