// Package fleetctl has the commands about workers: their state, drain, sleep, and a whole
// fleet started on this machine.
package fleetctl
