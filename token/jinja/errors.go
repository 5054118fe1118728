package jinja

import "fmt"

// A Kind says which rule a template or its data broke. The words are those
// of Python, because template authors search for them.
type Kind string

const (
	// SyntaxError: the template cannot be parsed.
	SyntaxError Kind = "TemplateSyntaxError"
	// UndefinedError: the template used a value that is not there.
	UndefinedError Kind = "UndefinedError"
	// TypeError: an operation met a value of the wrong type.
	TypeError Kind = "TypeError"
	// ValueError: an operation met a value it cannot work with.
	ValueError Kind = "ValueError"
	// SecurityError: the template tried to change the caller's data.
	SecurityError Kind = "SecurityError"
	// RuntimeError: anything else that jinja2 refuses while rendering.
	RuntimeError Kind = "TemplateRuntimeError"
	// Raised: the template itself refused the conversation with
	// raise_exception; Message is the template author's own text, meant for
	// the author of the conversation.
	Raised Kind = "TemplateError"
	// LimitError: the render would have passed one of its [Limits].
	LimitError Kind = "LimitError"
)

// An Error is a template that could not be parsed or rendered.
type Error struct {
	Kind Kind
	// Template is the name given to [Parse].
	Template string
	// Line is the template line, counted from 1, or 0 if unknown.
	Line    int
	Message string
}

// Error returns the message with its place in the template.
func (e *Error) Error() string {
	return fmt.Sprintf("template %q line %d: %s: %s", e.Template, e.Line, e.Kind, e.Message)
}

func errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

func typeErrorf(format string, args ...any) error  { return errorf(TypeError, format, args...) }
func valueErrorf(format string, args ...any) error { return errorf(ValueError, format, args...) }
func limitErrorf(format string, args ...any) error { return errorf(LimitError, format, args...) }

// atLine gives err a place if it has none yet, so that the innermost
// statement wins.
func atLine(err error, name string, line int) error {
	if e, ok := err.(*Error); ok && e.Line == 0 {
		e.Line, e.Template = line, name
	}
	return err
}
