package openai

import (
	"encoding/json"
	"slices"
)

// hostedTools are tools that another server would run by itself and that
// agents name by habit. There are none here: they are left out of what a
// response says are its tools. Asking for any other kind is an error.
var hostedTools = []string{"web_search", "web_search_2025_08_26", "web_search_preview",
	"web_search_preview_2025_03_11", "local_shell", "shell", "apply_patch", "namespace", "tool_search"}

// readFlatTools takes tools as this interface writes them: the function's
// members stand beside the type.
func (r *ResponseRequest) readFlatTools(f *fields) {
	f.with("tools", func(v value) error {
		switch {
		case !v.isArray():
			return v.wrongType("an array of objects")
		case len(v.raw) > toolBytesMax:
			return v.invalid("invalid_value", "more than %d bytes.", toolBytesMax)
		}
		for n, element := range v.elements() {
			if n == toolsMax {
				return v.invalid("array_above_max_length", "array too long. Expected an array with maximum length %d.",
					toolsMax)
			}
			if err := r.readFlatTool(element); err != nil {
				return err
			}
		}
		return nil
	})
	r.ToolChoice.Mode = ToolsNone
	if len(r.Tools) > 0 {
		r.ToolChoice.Mode = ToolsAuto
	}
	f.with("tool_choice", r.readFlatChoice)
	parallel := true
	f.flag("parallel_tool_calls", &parallel)
	r.ToolChoice.Single = r.ToolChoice.Single || !parallel
	r.flat.parallel = parallel
}

// flatTools is what a response repeats of the tools that were asked for.
type flatTools struct {
	tools    []ResponseTool
	choice   json.RawMessage // nil if none was asked for
	parallel bool
}

func (r *ResponseRequest) readFlatTool(v value) error {
	f := v.fields()
	kind := ""
	f.need("type", &kind)
	if f.err != nil || slices.Contains(hostedTools, kind) {
		return f.err
	}
	f.oneOf("type", &kind, "function", "custom")
	if f.err != nil {
		return f.err
	}
	var t Tool
	shape := ResponseTool{Type: kind}
	if kind == "custom" {
		t.readCustom(f, true)
	} else {
		t.read(f)
	}
	if f.err == nil && r.tool(t.Name) {
		f.fail(v.invalid("invalid_value", "there are two functions called '%s'.", t.Name))
	}
	if f.err != nil {
		return f.err
	}
	description := ""
	f.text("description", &description)
	shape.Name, shape.Description = t.Name, optional(description)
	if t.Custom != nil {
		shape.Format = t.Custom.Format
	} else {
		shape.Parameters, shape.Strict = json.RawMessage("null"), &t.Strict
		if t.Parameters != nil {
			shape.Parameters = t.Parameters
		}
	}
	r.Tools = append(r.Tools, t)
	r.flat.tools = append(r.flat.tools, shape)
	return nil
}

func (r *ResponseRequest) readFlatChoice(v value) error {
	if !v.isObject() {
		mode, err := v.text()
		if err == nil && mode == string(ToolsAuto) && len(r.Tools) == 0 {
			return nil // what agents say whether they have tools or not
		}
		if err := r.readToolChoice(v); err != nil {
			return err
		}
		r.flat.choice = json.RawMessage(slices.Clone(v.raw))
		return nil
	}
	f := v.fields()
	kind := ""
	f.need("type", &kind)
	f.oneOf("type", &kind, "function", "custom", "allowed_tools")
	switch {
	case f.err != nil:
	case kind == "function" || kind == "custom":
		r.ToolChoice.Mode, r.ToolChoice.Single = ToolsRequired, true
		r.allow(true, f)
	default:
		r.readFlatAllowed(f)
	}
	r.flat.choice = json.RawMessage(slices.Clone(v.raw))
	return f.err
}

func (r *ResponseRequest) readFlatAllowed(f *fields) {
	mode := ""
	f.needed("mode")
	f.oneOf("mode", &mode, "auto", "required")
	r.ToolChoice.Mode = ToolMode(mode)
	f.needed("tools")
	f.with("tools", func(v value) error {
		switch {
		case !v.isArray():
			return v.wrongType("an array of objects")
		case v.isEmptyArray():
			return v.invalid("empty_array",
				"empty array. Expected an array with minimum length 1, but got an empty array instead.")
		}
		for _, element := range v.elements() {
			inner := element.fields()
			r.allow(true, inner)
			if inner.err != nil {
				return inner.err
			}
		}
		return nil
	})
}
