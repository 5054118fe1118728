// Package cli is shared by the commands of parley: errors and their exit codes,
// arguments and their completion, output as JSON, files that are replaced atomically, a
// progress bar, and the version of the program.
package cli
