// Package lint holds the rules of the house as tests: which package may import
// which, what pure packages may not call, whether the files of a package stand on
// floors, that every package and every exported name is documented, and how long
// functions and files may be.
//
// The source is parsed here, in the test's own process. A test that asked
// another program for the import graph would be cached by the go command,
// which cannot see what that program read, and would still pass.
package lint
