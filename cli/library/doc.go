// Package library has the commands about models: the folder that pull fills and that
// list, show, rm and cp keep in order, the catalogue, and model files to inspect,
// quantize and generate.
package library
