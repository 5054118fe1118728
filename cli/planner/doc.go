// Package planner is the command that says how many GPUs a load needs: it fills in the
// sheet of sim/plan from flags, model files, traces and this machine, and prints it. Since what a
// load costs depends on how much of it is cached, it also has the command that compares prompts.
package planner
