// Package jinja renders chat templates: the small Jinja2 programs that ship
// with a model and turn a conversation into the exact text it was trained on.
//
// A prompt that differs from the trained one by a single space costs answer
// quality without any visible error, so the measure of this package is
// equality with Python's jinja2 as Hugging Face transformers sets it up: an
// immutable sandbox, trim_blocks and lstrip_blocks, break and continue, the
// generation tag, and the functions raise_exception and strftime_now. It is
// written by hand because the existing Go engines speak a relative of the
// language (Go maps without order, Go number formatting, no Python methods)
// and differ on a third of real templates.
//
// The path of a template, top to bottom:
//
//	Parse   lexer.go cuts the source into tokens, parser.go and
//	        parse_expr.go build the tree of ast.go. Names become numbers.
//	Render  exec.go runs statements, eval.go evaluates expressions over the
//	        values of values.go. Filters, tests and methods have tables of
//	        their own (filters.go, tests.go, methods.go).
//
// A [Template] is immutable and may be rendered by many goroutines at once.
// Templates and conversations are both untrusted: every loop, every copy and
// every nesting level is paid for from [Limits] before memory is taken.
//
// A rendered [Text] records which bytes the template's author wrote. Operations
// on strings keep this provenance: literals are the author's, strings of the
// conversation are data, and what is computed from data is data.
//
// What no prompt needs is left out, and asking for it is an error with its name:
// HTML (escape, xmlattr, striptags, urlize; safe changes nothing), layout (center,
// wordwrap, truncate, batch, slice, ljust, zfill), random text, named characters
// (\N{…}), complex numbers, and loading other templates. Printing a method or an
// iterator gives no memory address.
package jinja
