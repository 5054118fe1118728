// Package simulate is the command that runs scenarios of package sim, prints and draws
// what they give, and compares two of them.
package simulate
