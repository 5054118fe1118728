// Package bench is the command that measures a server: it makes a plan of the flags, runs
// it with internal/load, and prints, stores and compares reports.
package bench
