// Package syntax reads the text of a PTX file into functions, statements and variables.
// It knows no instructions: an opcode is a name with modifiers. Sizes, nesting and
// numbers of registers are bounded, so that a damaged file is an error.
package syntax
