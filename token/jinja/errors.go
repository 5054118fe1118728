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
	// Line is the template line, counted from 1.
	Line    int
	Message string
}

// Error returns the message with its place in the template.
func (e *Error) Error() string {
	return fmt.Sprintf("template %q line %d: %s: %s", e.Template, e.Line, e.Kind, e.Message)
}

// fail ends the parse or the render. Like the parser and the executor of
// text/template, this package carries its errors up by a panic that does not
// leave it: see catch.
func fail(kind Kind, format string, args ...any) {
	panic(&Error{Kind: kind, Message: fmt.Sprintf(format, args...)})
}

func failType(format string, args ...any)  { fail(TypeError, format, args...) }
func failValue(format string, args ...any) { fail(ValueError, format, args...) }
func failLimit(format string, args ...any) { fail(LimitError, format, args...) }

// catch turns the panic of fail into an error of the template called name. An
// error that has no line yet gets the one that line points to. Other panics
// continue.
func catch(err *error, name string, line *int) {
	switch e := recover().(type) {
	case nil:
	case *Error:
		if e.Template = name; e.Line == 0 {
			e.Line = max(*line, 1)
		}
		*err = e
	default:
		panic(e)
	}
}
