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
// From the bottom up, each part uses only what stands above it in this list:
//
//	values       errors, text, value, map, read: what templates compute with
//	render       limits, state, args: the state of one render and its limits
//	operations   number, sequence, print, operators: what Python does to values
//	names        json, format, methods, tests, filters, strftime, globals: what
//	             templates call by name, in a table for each kind
//	parsing      lexer cuts the source into tokens; parser, parse_expr and
//	             parse_stmt make closures of them, with loop for the two
//	             statements that hold most state
//	Template     template: Parse and Render
//
// A template is compiled in one pass: each parse function returns a Go closure
// that evaluates or runs what it has read, so there is no tree and no
// interpreter beside the parser. Errors are panics with an [*Error] that Parse
// and Render recover, as in text/template.
//
// A [Template] is immutable and may be rendered by many goroutines at once.
// Templates and conversations are both untrusted: every loop, every copy and
// every nesting level is paid for from [Limits] before memory is taken.
//
// A rendered [Text] records which bytes the template's author wrote. Operations
// on strings keep this provenance: literals are the author's, strings of the
// conversation are data, and what is computed from data is data.
//
// What no chat template is known to use is left out, and asking for it is an
// error with its name and line, for filters, tests, tags and operators when the
// template is parsed: the tags call, with, raw, block, include and their kin,
// recursive loops, varargs and kwargs of macros; HTML (safe changes nothing);
// layout, random text, groupby and attr; % on strings and widths in format; the
// operator **, arithmetic beyond 64 bits and tuples as keys. Filters that Python
// evaluates lazily compute their items at once, so their errors come earlier.
package jinja
