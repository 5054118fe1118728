package openai

import (
	"bytes"
	"encoding/json"
	"regexp"

	"parley"
)

// The bounds of the tools of one request. The interface's own is 128.
const (
	toolsMax       = 128
	toolBytesMax   = 1 << 20 // of all definitions together
	toolNamePhrase = "a-z, A-Z, 0-9, underscores and dashes, with a maximum length of 64"
)

// toolName is what a function may be called.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// A Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	// Parameters is the JSON Schema of the arguments, an object; nil if the
	// function takes none.
	Parameters json.RawMessage
	// Strict refuses a schema to which arguments cannot be held in every point.
	Strict bool
	// Param is the path of Parameters in the body.
	Param string
	// Custom is set for a tool that takes a text.
	Custom *CustomTool
}

// Refusal is the error for a function whose arguments cannot be held to its
// schema.
func (t *Tool) Refusal(why string) error {
	if t.Custom != nil {
		return withCode("invalid_grammar", parley.Invalid(t.Param, "Invalid format of tool '%s': %s.", t.Name, why))
	}
	return withCode("invalid_function_parameters",
		parley.Invalid(t.Param, "Invalid schema for function '%s': %s.", t.Name, why))
}

// A ToolMode says whether the model calls tools.
type ToolMode string

// The modes.
const (
	// ToolsNone: it calls none, and is not told of them.
	ToolsNone ToolMode = "none"
	// ToolsAuto: it decides.
	ToolsAuto ToolMode = "auto"
	// ToolsRequired: it calls one or more.
	ToolsRequired ToolMode = "required"
)

// A ToolChoice says which tools the model calls.
type ToolChoice struct {
	Mode ToolMode
	// Allowed names the tools that may be called; nil allows all. Each is one of
	// the request's tools.
	Allowed []string
	// Single allows one call at most.
	Single bool
	// Legacy says that the client knows the older function_call, and not tool_calls.
	Legacy bool
}

// readTools takes the tools, the choice among them, and how many calls may be
// made. They come after the rest: a wrong message is the likelier mistake.
func (r *ChatRequest) readTools(f *fields) {
	for _, name := range []string{"tools", "functions"} {
		f.with(name, r.readToolList)
	}
	r.ToolChoice.Mode = ToolsNone
	if len(r.Tools) > 0 {
		r.ToolChoice.Mode = ToolsAuto
	}
	for _, name := range []string{"tool_choice", "function_call"} {
		f.with(name, r.readToolChoice)
	}
	_, hasTools := f.take("tools")
	_, hasFunctions := f.take("functions")
	r.ToolChoice.Legacy = hasFunctions && !hasTools
	r.ToolChoice.Single = r.ToolChoice.Single || r.ToolChoice.Legacy
	parallel := true
	f.flag("parallel_tool_calls", &parallel)
	r.ToolChoice.Single = r.ToolChoice.Single || !parallel
}

func (r *ChatRequest) readToolList(v value) error {
	switch {
	case !v.isArray():
		return v.wrongType("an array of objects")
	case len(v.raw) > toolBytesMax:
		return v.invalid("invalid_value", "more than %d bytes.", toolBytesMax)
	}
	for i, element := range v.elements() {
		if i == toolsMax {
			return v.invalid("array_above_max_length", "array too long. Expected an array with maximum length %d.",
				toolsMax)
		}
		t, err := readTool(element, v.key == "functions")
		if err != nil {
			return err
		}
		if r.tool(t.Name) {
			return element.invalid("invalid_value", "there are two functions called '%s'.", t.Name)
		}
		r.Tools = append(r.Tools, t)
	}
	return nil
}

// tool reports whether there is a tool of that name.
func (r *ChatRequest) tool(name string) bool {
	for i := range r.Tools {
		if r.Tools[i].Name == name {
			return true
		}
	}
	return false
}

// readTool takes a function in its wrapping, or bare, as the older field has it.
func readTool(v value, bare bool) (t Tool, err error) {
	f := v.fields()
	if bare {
		t.read(f)
		return t, f.err
	}
	if f.needTool() == "custom" {
		f.object("custom", func(f *fields) { t.readCustom(f, false) })
		return t, f.err
	}
	f.object("function", t.read)
	return t, f.err
}

// needTool checks that an object is a function or a custom tool and has the member
// of that name, which it returns.
func (f *fields) needTool() string {
	kind := "function"
	f.needed("type")
	f.oneOf("type", &kind, "function", "custom")
	f.needed(kind)
	return kind
}

func (t *Tool) read(f *fields) {
	f.toolName(&t.Name)
	f.text("description", &t.Description)
	f.flag("strict", &t.Strict)
	f.with("parameters", func(v value) error {
		if !v.isObject() {
			return v.wrongType("an object")
		}
		t.Parameters, t.Param = json.RawMessage(bytes.Clone(v.raw)), v.path()
		return nil
	})
}

// toolName takes the name of a function.
func (f *fields) toolName(into *string) {
	v, ok := f.take("name")
	if !ok {
		f.fail(f.missing("name"))
		return
	}
	f.text("name", into)
	switch {
	case f.err != nil || toolName.MatchString(*into):
	case len(*into) > 64:
		f.fail(v.invalid("string_above_max_length",
			"string too long. Expected a string with maximum length 64, but got a string with length %d instead.",
			len(*into)))
	default:
		f.fail(v.invalid("invalid_value", "'%s'. Expected a name of %s.", shorten(*into), toolNamePhrase))
	}
}

func (r *ChatRequest) readToolChoice(v value) error {
	if v.isObject() {
		return r.readToolChoiceObject(v)
	}
	mode, err := v.text()
	if err != nil {
		return v.wrongType("a string or an object")
	}
	switch m := ToolMode(mode); m {
	case ToolsNone, ToolsAuto, ToolsRequired:
		r.ToolChoice.Mode = m
	default:
		return v.invalid("invalid_value", "'%s'. Supported values are: 'none', 'auto', and 'required'.", shorten(mode))
	}
	if len(r.Tools) > 0 {
		return nil
	}
	if r.ToolChoice.Mode == ToolsRequired {
		return v.invalid("invalid_value", "'%s' is only allowed when 'tools' are specified.", v.path())
	}
	r.ToolChoice.Mode = ToolsNone
	return nil
}

// readToolChoiceObject takes one function, or a list of those allowed. The
// older field names a function without saying that it is one.
func (r *ChatRequest) readToolChoiceObject(v value) error {
	f := v.fields()
	kind := "function"
	f.oneOf("type", &kind, "function", "custom", "allowed_tools")
	switch {
	case f.err != nil:
	case kind == "allowed_tools":
		r.readAllowedTools(f)
	default:
		r.ToolChoice.Mode, r.ToolChoice.Single = ToolsRequired, true
		r.allow(v.key == "function_call", f)
	}
	return f.err
}

// allow adds the function that f names to those that may be called.
func (r *ChatRequest) allow(bare bool, f *fields) {
	name := ""
	if bare {
		f.toolName(&name)
	} else {
		f.object(f.needTool(), func(f *fields) { f.toolName(&name) })
	}
	if f.err == nil && !r.tool(name) {
		f.fail(f.at.invalid("invalid_value", "the function '%s' is not one of 'tools'.", name))
	}
	r.ToolChoice.Allowed = append(r.ToolChoice.Allowed, name)
}

func (r *ChatRequest) readAllowedTools(f *fields) {
	if _, ok := f.take("allowed_tools"); !ok {
		f.fail(f.missing("allowed_tools"))
	}
	f.object("allowed_tools", func(f *fields) {
		mode := ""
		f.oneOf("mode", &mode, "auto", "required")
		if _, ok := f.take("mode"); !ok {
			f.fail(f.missing("mode"))
		}
		r.ToolChoice.Mode = ToolMode(mode)
		list, ok := f.take("tools")
		switch {
		case !ok:
			f.fail(f.missing("tools"))
			return
		case !list.isArray():
			f.fail(list.wrongType("an array of objects"))
			return
		case list.isEmptyArray():
			f.fail(list.invalid("empty_array",
				"empty array. Expected an array with minimum length 1, but got an empty array instead."))
			return
		}
		for _, element := range list.elements() {
			inner := element.fields()
			r.allow(false, inner)
			f.fail(inner.err)
		}
	})
}
