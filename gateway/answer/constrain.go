package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"

	"parley"
	"parley/gateway/dialect"
	"parley/gateway/openai"
)

// A Constraint is what an answer is held to: a format, calls of tools, or
// either.
type Constraint struct {
	Grammar *parley.Grammar
	// loose is used instead if the engine cannot hold the arguments of tools
	// that are not strict: it leaves their schemas out. Nil if there is none.
	loose *parley.Grammar
	// custom names the tools whose calls have a text as their input.
	custom []string
	// clients are the parts of the grammar that the client wrote.
	clients []clientGrammar
}

// A clientGrammar is a grammar that a client wrote and how to speak of it.
type clientGrammar struct {
	parley.Grammar
	// refusal makes an error of what is wrong with it.
	refusal func(why string) error
}

// ConstrainText returns what the answer to a plain prompt is held to.
func ConstrainText(f *openai.Format) Constraint {
	c := Constraint{Grammar: f.Grammar}
	if f.Grammar != nil {
		kept := *f // and not the request that it is a part of
		c.clients = []clientGrammar{{*f.Grammar, kept.Refusal}}
	}
	return c
}

// Constrain returns what the answer to a request is held to.
func (box *Tools) Constrain(r *openai.ChatRequest, thinking bool) (Constraint, error) {
	c := ConstrainText(&r.Format)
	if c.Grammar != nil {
		c.Grammar = new(box.Text(*c.Grammar))
	}
	if tools := Callable(r); len(tools) > 0 {
		written, loosened := grammarsOf(tools)
		for i, t := range tools {
			if t.Custom != nil {
				c.custom = append(c.custom, t.Name)
			}
			if t.Strict && !box.Holds(written[i]) {
				return c, t.Refusal("the model writes arguments one by one, and this schema cannot be held so; " +
					"use an object with properties, or leave strict out")
			}
			c.clients = append(c.clients, clientGrammar{written[i].Arguments, t.Refusal})
		}
		c.Grammar = box.withTools(r, written)
		if loosened != nil {
			c.loose = box.withTools(r, loosened)
		}
	}
	if c.Grammar != nil {
		c.Grammar = new(box.Thoughts.AfterThoughts(*c.Grammar, thinking))
	}
	if c.loose != nil {
		c.loose = new(box.Thoughts.AfterThoughts(*c.loose, thinking))
	}
	return c, nil
}

// Worker returns a worker that holds answers to the constraint.
func (c *Constraint) Worker(w parley.Worker) parley.Worker {
	if c == nil || c.loose == nil {
		return w
	}
	return lenientWorker{w, c.loose}
}

// Loosely returns what an answer is held to where the exact grammar is refused.
func (c *Constraint) Loosely() *parley.Grammar {
	if c == nil {
		return nil
	}
	return c.loose
}

// withTools is the grammar of an answer that may or must call tools. Where the
// answer has a format, text outside of calls has that format.
func (box *Tools) withTools(r *openai.ChatRequest, tools []dialect.Tool) *parley.Grammar {
	single := r.ToolChoice.Single
	var g parley.Grammar
	switch {
	case r.ToolChoice.Mode == openai.ToolsRequired:
		g = box.Calls(tools, 1, single)
	case r.Format.Grammar != nil:
		g = parley.Choice(box.Text(*r.Format.Grammar), box.Calls(tools, 1, single))
	default:
		g = box.MayCall(tools, single)
	}
	return &g
}

// grammarsOf returns the tools as calls of them are written, and once more with
// any object for the arguments of those that are not strict, nil if that is the
// same.
func grammarsOf(tools []openai.Tool) (written, loose []dialect.Tool) {
	differs := false
	for _, t := range tools {
		exact := dialect.Tool{Name: t.Name, Arguments: parley.JSONObject(), Schema: t.Held(), Strict: t.Strict}
		switch {
		case t.Parameters == nil:
			exact.Arguments = parley.Literal("{}")
		case t.Strict || isObjectSchema(t.Parameters):
			exact.Arguments = parley.JSONSchema(t.Held(), t.Strict)
		}
		lax := exact
		if t.Parameters != nil && !t.Strict && t.Custom == nil {
			lax.Arguments, lax.Schema = parley.JSONObject(), json.RawMessage(`{}`)
			differs = true
		}
		written, loose = append(written, exact), append(loose, lax)
	}
	if !differs {
		loose = nil
	}
	return written, loose
}

// isObjectSchema reports whether a schema allows objects only, which arguments
// always are.
func isObjectSchema(raw json.RawMessage) bool {
	var schema struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(raw, &schema) == nil && schema.Type == "object"
}

// refused turns the engine's refusal of the grammar into one that names the
// field of the request at fault.
func (c *Constraint) refused(err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || !isGrammarError(e) || c == nil || len(c.clients) == 0 {
		return err
	}
	place, why, found := strings.Cut(e.Message, ": ")
	if !found || !strings.HasPrefix(place, enginePlace) {
		place, why = enginePlace, e.Message
	}
	fault := c.clients[0].refusal(e.Message)
	for _, client := range c.clients {
		eachPlace(c.Grammar, enginePlace, func(path string, g *parley.Grammar) {
			if inner, ok := strings.CutPrefix(place+"/", path+"/"); ok && sameClient(g, &client.Grammar) {
				fault = client.refusal(strings.TrimPrefix("at #/"+strings.TrimSuffix(inner, "/")+": ", "at #/: ") + why)
			}
		})
	}
	return fault
}

// enginePlace is how the engine begins to say where in a grammar it is: at
// #/parts/1/properties/name.
const enginePlace = "at #"

// eachPlace visits all schemas in a grammar, by their places.
func eachPlace(g *parley.Grammar, path string, visit func(path string, g *parley.Grammar)) {
	if g.Kind == parley.GrammarSchema {
		visit(path, g)
	}
	for i := range g.Parts {
		eachPlace(&g.Parts[i], path+"/parts/"+strconv.Itoa(i), visit)
	}
	for i := range g.Triggers {
		eachPlace(&g.Triggers[i].Then, path+"/triggers/"+strconv.Itoa(i), visit)
	}
}

func sameClient(a, b *parley.Grammar) bool {
	return a.Kind == b.Kind && bytes.Equal(a.Schema, b.Schema)
}

func isGrammarError(e *parley.Error) bool {
	return e.Code == parley.InvalidRequest && e.Param == "grammar"
}

// A lenientWorker holds an answer to the loose grammar where the exact one is
// refused.
type lenientWorker struct {
	parley.Worker
	loose *parley.Grammar
}

// Generate answers r.
func (w lenientWorker) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		for d, err := range w.Worker.Generate(ctx, r) {
			if e, ok := errors.AsType[*parley.Error](err); ok && isGrammarError(e) {
				again := *r
				again.Grammar = w.loose
				w.Worker.Generate(ctx, &again)(yield)
				return
			}
			if !yield(d, err) {
				return
			}
		}
	}
}
