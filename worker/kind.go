package worker

import (
	"fmt"
	"strings"
)

// A Kind is a dialect that engines speak.
type Kind string

// The kinds.
const (
	// Parley is `parley worker`.
	Parley Kind = "parley"
	// VLLM is a vLLM server, or whatever looks like one.
	VLLM Kind = "vllm"
	// SGLang is an SGLang server.
	SGLang Kind = "sglang"
	// LlamaCpp is llama-server.
	LlamaCpp Kind = "llamacpp"
	// Ollama is an Ollama server.
	Ollama Kind = "ollama"
	// OpenAI is any other server with OpenAI's /v1/completions.
	OpenAI Kind = "openai"
	// OpenAIChat is one that has /v1/chat/completions and no other.
	OpenAIChat Kind = "openai-chat"
	// Anthropic is any server with Anthropic's /v1/messages.
	Anthropic Kind = "anthropic"
)

// Kinds lists all of them.
func Kinds() []Kind {
	return []Kind{Parley, VLLM, SGLang, LlamaCpp, Ollama, OpenAI, OpenAIChat, Anthropic}
}

// TakesTurns reports whether engines of the kind take conversations and render them themselves.
func (k Kind) TakesTurns() bool { return k == OpenAIChat || k == Anthropic }

// Divides reports whether engines of the kind share a request by their own means: one computes
// the prompt, another one writes the answer.
func (k Kind) Divides() bool { return k == VLLM || k == SGLang }

// ParseKind reads the name of a kind.
func ParseKind(name string) (Kind, error) {
	for _, k := range Kinds() {
		if string(k) == name {
			return k, nil
		}
	}
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return "", fmt.Errorf("%q is not a kind of worker: use one of %s", name, strings.Join(names, ", "))
}

// A Salting says how far an engine keeps contexts of different salts apart.
type Salting string

// The degrees of salting.
const (
	// SaltNone: equal prompts share their context, of all tenants.
	SaltNone Salting = "no"
	// SaltWhole: a request's context is shared within its salt only, or with
	// all if it has none.
	SaltWhole Salting = "whole"
	// SaltBlocks: the public beginning of a request is shared with all, and what
	// follows within its salt.
	SaltBlocks Salting = "blocks"
)

// A Holding says which grammars an engine holds answers to.
type Holding string

// The degrees of holding.
const (
	// HoldNone: requests with a grammar are refused.
	HoldNone Holding = "no"
	// HoldSchema: JSON schemas and objects alone.
	HoldSchema Holding = "schema"
	// HoldGBNF: all that can be written in GBNF: those, regular expressions, calls of
	// tools, and schemas of common keywords inside them.
	HoldGBNF Holding = "gbnf"
	// HoldAll: every [parley.Grammar].
	HoldAll Holding = "all"
)

// A Calling says how tools can be called.
type Calling string

// The degrees of calling.
const (
	// CallText: the model decides, and calls are read from its text. Schemas are not
	// enforced: strict tools and required calls are refused.
	CallText Calling = "auto"
	// CallSchema: those, and one required call.
	CallSchema Calling = "auto, required"
	// CallOwn: the engine's own tools, whose results are mapped back.
	CallOwn Calling = "its own"
	// CallAll: strict tools, required calls and formats beside tools, too.
	CallAll Calling = "all"
)

// A Resuming says which answers, begun elsewhere, an engine continues.
type Resuming string

// The degrees of resuming.
const (
	// ResumeNone: none.
	ResumeNone Resuming = "no"
	// ResumePlain: those of one choice without grammar and penalties, as a longer
	// prompt.
	ResumePlain Resuming = "plain"
	// ResumeAll: every one.
	ResumeAll Resuming = "all"
)

// Promises are what a kind of worker can be relied on for. A request that asks
// for more is refused with [parley.InvalidRequest] and not answered wrongly.
type Promises struct {
	// TokenIDs: answers carry token ids. Without, an answer is text, has no
	// log-probabilities and cannot be taken up by another worker once its first
	// piece was shown.
	TokenIDs bool
	// TokenPrompts: the prompt is taken as token ids. Without, the engine
	// tokenizes the prompt's text itself.
	TokenPrompts bool
	// Events: it can publish what its cache holds. Replay and Snapshot: it can
	// repeat what it published, and list all it holds.
	Events, Replay, Snapshot bool
	// ModelEvents: events tell the models of a worker with several apart. Otherwise
	// what such a worker holds is known by what was sent there alone.
	ModelEvents bool
	// Salts says how tenants are kept apart in its cache.
	Salts Salting
	// Cancel: a request whose client left ends within about a step.
	Cancel bool
	// Backpressure: a reader that does not keep up pauses its request in the
	// engine, after a bounded number of tokens. Elsewhere the sockets fill, and
	// then it is up to the engine.
	Backpressure bool
	// Metrics: load and use of memory can be asked for.
	Metrics bool
	// ExactSeeds: the same seed gives the same tokens, on every worker with the
	// same model and whatever else it computes. So does greedy choice.
	ExactSeeds bool
	// Grammar says which grammars answers can be held to.
	Grammar Holding
	// Tools says how tools can be called.
	Tools Calling
	// Resume says which answers that another worker has begun can be continued.
	Resume Resuming
	// Choices: several continuations of one request share its prompt.
	Choices bool
	// Logprobs and PromptLogprobs: of the answer's and of the prompt's tokens.
	Logprobs, PromptLogprobs bool
	// Embed: it can embed prompts.
	Embed bool
	// Sleep: it can be told to give its memory back and to take it again, and says
	// whether it sleeps.
	Sleep bool
	// Whole: class, tenant, deadline, sinks, retention, progress and background
	// reach the engine, and so does that a request is wanted back ([parley.Withdrawal]).
	// Elsewhere the gateway alone knows them.
	Whole bool
}

// promises is the published table.
var promises = map[Kind]Promises{
	Parley: {
		TokenIDs:       true,
		TokenPrompts:   true,
		Events:         true,
		Replay:         true,
		Snapshot:       true,
		ModelEvents:    true,
		Salts:          SaltBlocks,
		Cancel:         true,
		Backpressure:   true,
		Metrics:        true,
		ExactSeeds:     true,
		Grammar:        HoldAll,
		Tools:          CallAll,
		Resume:         ResumeAll,
		Choices:        true,
		Logprobs:       true,
		PromptLogprobs: true,
		Embed:          true,
		Sleep:          true,
		Whole:          true,
	},
	VLLM: {
		TokenIDs:     true,
		TokenPrompts: true,
		Events:       true,
		Replay:       true,
		ModelEvents:  true,
		Salts:        SaltWhole,
		Cancel:       true,
		Metrics:      true,
		Grammar:      HoldGBNF,
		Tools:        CallAll,
		Resume:       ResumePlain,
		Choices:      true,
		Logprobs:     true,
		Sleep:        true,
	},
	SGLang: {
		TokenIDs:     true,
		TokenPrompts: true,
		Events:       true,
		Replay:       true,
		Salts:        SaltWhole,
		Cancel:       true,
		Metrics:      true,
		Grammar:      HoldGBNF,
		Tools:        CallAll,
		Resume:       ResumePlain,
		Choices:      true,
		Logprobs:     true,
	},
	LlamaCpp: {
		TokenIDs:     true,
		TokenPrompts: true,
		Salts:        SaltNone,
		Cancel:       true,
		Metrics:      true,
		Grammar:      HoldGBNF,
		Tools:        CallAll,
		Resume:       ResumePlain,
		Choices:      true,
		Logprobs:     true,
	},
	Ollama: {
		Salts:   SaltNone,
		Cancel:  true,
		Grammar: HoldSchema,
		Tools:   CallSchema,
		Resume:  ResumeNone,
	},
	OpenAI: {
		Salts:   SaltNone,
		Cancel:  true,
		Grammar: HoldNone,
		Tools:   CallText,
		Resume:  ResumeNone,
		Choices: true,
	},
	OpenAIChat: {
		Salts:   SaltNone,
		Cancel:  true,
		Grammar: HoldSchema,
		Tools:   CallOwn,
		Resume:  ResumeNone,
		Choices: true,
	},
	Anthropic: {
		Salts:   SaltNone,
		Cancel:  true,
		Grammar: HoldNone,
		Tools:   CallOwn,
		Resume:  ResumeNone,
	},
}

// PromisesOf returns what a kind of worker can be relied on for.
func PromisesOf(k Kind) Promises { return promises[k] }
