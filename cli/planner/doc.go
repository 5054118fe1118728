// Package planner is the command that says how many GPUs a load needs: it fills in the
// sheet of sim/plan from flags, model files, traces and this machine, and prints it.
package planner
