package ollama

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley"
)

// Ollama's defaults where they differ from those of OpenAI's API.
const (
	temperatureDefault = 0.8
	topPDefault        = 0.9
	topKDefault        = 40
)

// plainOptions have another name in OpenAI's API, or the same, and the same meaning.
var plainOptions = map[string]string{
	"temperature":       "temperature",
	"top_p":             "top_p",
	"top_k":             "top_k",
	"min_p":             "min_p",
	"presence_penalty":  "presence_penalty",
	"frequency_penalty": "frequency_penalty",
	"repeat_penalty":    "repetition_penalty",
	"stop":              "stop",
	"seed":              "seed",
	"num_predict":       maxTokensName,
}

const maxTokensName = "max_tokens"

// loadOptions say how a model is loaded, which the operator of a server decides.
var loadOptions = []string{"num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock", "num_thread", "numa",
	"low_vram", "f16_kv", "vocab_only", "embedding_only", "rope_frequency_base", "rope_frequency_scale"}

// idleOptions are samplers that this server does not have, each with the value that
// switches it off.
var idleOptions = map[string]string{
	"mirostat":         "0",
	"mirostat_tau":     "",
	"mirostat_eta":     "",
	"tfs_z":            "1",
	"typical_p":        "1",
	"penalize_newline": "false",
	"num_keep":         "0",
}

// apply puts options into the body of a request of OpenAI's API.
func apply(options map[string]json.RawMessage, body map[string]any) error {
	body["temperature"], body["top_p"], body["top_k"] = temperatureDefault, topPDefault, topKDefault
	for _, name := range slices.Sorted(maps.Keys(options)) {
		raw := options[name]
		if string(raw) == "null" {
			continue
		}
		if err := applyOne(name, raw, body); err != nil {
			return err
		}
	}
	return applyPenaltyWindow(options, body)
}

func applyOne(name string, raw json.RawMessage, body map[string]any) error {
	switch to, isPlain := plainOptions[name]; {
	case name == "num_ctx":
		return checkContext(raw)
	case name == "repeat_last_n": // see applyPenaltyWindow
		return nil
	case name == "num_predict" || name == "seed":
		n, err := number(name, raw)
		if err == nil && (n > 0 || n == 0 && name == "seed") { // anything else means no limit, and a random seed
			body[to] = n
		}
		return err
	case isPlain:
		body[to] = raw
		return nil
	case slices.Contains(loadOptions, name):
		return refused(name, "the operator decides how this server loads models: leave it out.")
	}
	idle, known := idleOptions[name]
	switch {
	case known && (idle == "" || sameNumber(idle, string(raw))):
		return nil
	case known:
		return refused(name, "this server does not support it: leave it out.")
	}
	return refused(name, "there is no such option.")
}

// checkContext takes any size of a context: the model has the one it was loaded with,
// and a larger one is cut to that, as Ollama cuts it to the one of the training.
func checkContext(raw json.RawMessage) error {
	n, err := number("num_ctx", raw)
	if err == nil && n < 1 {
		err = refused("num_ctx", "expected at least 1, but got "+strconv.FormatInt(n, 10)+".")
	}
	return err
}

// applyPenaltyWindow accepts the two sizes of the window of repeat_penalty that this
// server has, which are all tokens and none, and every size while there is no penalty.
func applyPenaltyWindow(options map[string]json.RawMessage, body map[string]any) error {
	raw, given := options["repeat_last_n"]
	penalty, penalized := options["repeat_penalty"]
	if !given || string(raw) == "null" {
		return nil
	}
	n, err := number("repeat_last_n", raw)
	switch {
	case err != nil:
		return err
	case n == 0:
		delete(body, plainOptions["repeat_penalty"])
	case n != -1 && penalized && !sameNumber("1", string(penalty)):
		return refused("repeat_last_n", "'repeat_penalty' counts all tokens here: send -1, or leave it out.")
	}
	return nil
}

// number reads a whole number.
func number(name string, raw json.RawMessage) (int64, error) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 && name != "seed" || math.Abs(f) > 1<<62 {
		return 0, refused(name, "expected an integer, but got "+shorten(string(raw))+".")
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, nil
	}
	return int64(f), nil
}

// sameNumber reports whether two JSON values are the same number or the same word.
func sameNumber(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return a == b || errX == nil && errY == nil && x == y
}

// refused is the error for an option that cannot be honoured.
func refused(name, why string) error {
	param := "options." + shorten(name)
	return parley.Invalid(param, "Unsupported '%s': %s", param, why)
}

// shorten keeps text that a client sent from filling an error.
func shorten(text string) string {
	if len(text) <= 64 {
		return text
	}
	return strings.ToValidUTF8(text[:64], "") + "…"
}

// Rename returns an error in whose text the fields have Ollama's names, and not those of
// OpenAI's API. A nil error stays nil.
func Rename(err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Param == "" {
		return err
	}
	name := ""
	for option, to := range plainOptions {
		if e.Param == to {
			name = "options." + option
		}
	}
	switch {
	case strings.HasPrefix(e.Param, "response_format"):
		name = "format"
	case e.Code == parley.ContextTooLong, name == "":
		return err
	}
	renamed := *e
	renamed.Param = name
	renamed.Message = strings.ReplaceAll(strings.ReplaceAll(e.Message, "'"+e.Param+"'", "'"+name+"'"),
		"response_format", "format")
	return &renamed
}

// ErrorBody is a failure as Ollama's clients read it: a text, not an object.
type ErrorBody struct {
	Error string `json:"error"`
}
