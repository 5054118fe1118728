package foreign

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"parley"
)

// Two engines share a request by fields of its body that tell each of the other:
//
//   - vLLM's worker for prompts is asked first, with kv_transfer_params that say that another
//     one decodes. It answers with those for that one: where its blocks are.
//   - SGLang's are asked at once with the same bootstrap_host, bootstrap_port and
//     bootstrap_room. They meet there, and the first sends its blocks and its token.

// A Bootstrap names where two SGLang engines meet: at the bootstrap server of the one that computes
// the prompt.
type Bootstrap struct {
	Host string `json:"bootstrap_host"`
	Port int    `json:"bootstrap_port"`
	Room int64  `json:"bootstrap_room"`
}

// NewBootstrap returns the room at the engine with a URL.
func NewBootstrap(engine string, port int, room int64) (Bootstrap, error) {
	u, err := url.Parse(engine)
	if err != nil {
		return Bootstrap{}, err
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		host = "[" + host + "]"
	}
	return Bootstrap{Host: host, Port: port, Room: room}, nil
}

// remoteDecode says to vLLM that another engine decodes. It answers with what is null here.
const remoteDecode = `{"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null, ` +
	`"remote_block_ids": null, "remote_host": null, "remote_port": null}`

// PutHandoff adds to a request's body what it says of the other engine.
func PutHandoff(body any, h *parley.Handoff) error {
	b, ok := body.(map[string]any)
	switch {
	case h == nil:
		return nil
	case !ok:
		return parley.Errorf(parley.Internal, "this kind of engine cannot split prefill and decode")
	case h.Prefill && h.Fields == nil:
		b["kv_transfer_params"] = json.RawMessage(remoteDecode)
		b["stream"], b["n"], b["max_tokens"] = false, 1, 1
		delete(b, "stream_options")
		delete(b, "return_token_ids")
		return nil
	}
	return json.Unmarshal(h.Fields, &b)
}

// A prefillAnswer is what vLLM's worker for prompts answers.
type prefillAnswer struct {
	Params json.RawMessage  `json:"kv_transfer_params"`
	Usage  *completionUsage `json:"usage"`
}

// ReadPrefill reads the answer of an engine that has computed a prompt: the fields for the
// engine that decodes, and the usage.
func ReadPrefill(text []byte) (fields json.RawMessage, usage *parley.Usage, err error) {
	var a prefillAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, nil, err
	}
	if p := strings.TrimSpace(string(a.Params)); p == "" || p == "null" {
		return nil, nil, fmt.Errorf("it has no kv_transfer_params: start it with --kv-transfer-config")
	}
	usage = &parley.Usage{Outside: true}
	if a.Usage != nil {
		usage.PromptTokens, usage.CachedTokens = a.Usage.PromptTokens, a.Usage.Details.CachedTokens
	}
	fields, err = json.Marshal(map[string]json.RawMessage{"kv_transfer_params": a.Params})
	return fields, usage, err
}

// ReadPrefilled reads the stream of an SGLang engine that has computed a prompt for another one
// to its end, and returns the usage.
func ReadPrefilled(from io.Reader, failed func(message []byte) error) (*parley.Usage, error) {
	usage := &parley.Usage{Outside: true}
	for message, err := range events(from) {
		if err != nil {
			return nil, err
		}
		if err := failed(message); err != nil {
			return nil, err
		}
		var chunk sglangChunk
		if err := json.Unmarshal(message, &chunk); err != nil {
			return nil, err
		}
		if f := chunk.Meta.FinishReason; f != nil && f.Type == "abort" {
			return nil, parley.Errorf(parley.Internal, "the worker aborted the prompt: %s", f.Message)
		}
		usage.PromptTokens = max(usage.PromptTokens, chunk.Meta.PromptTokens)
		usage.CachedTokens = max(usage.CachedTokens, chunk.Meta.CachedTokens)
	}
	return usage, nil
}

// Disaggregation is what an SGLang server says of its part in requests.
type Disaggregation struct {
	Mode string `json:"disaggregation_mode"`
	Port int    `json:"disaggregation_bootstrap_port"`
}

// Role returns the part of the server, empty for one that answers alone.
func (s *Disaggregation) Role() (parley.WorkerRole, error) {
	switch s.Mode {
	case "", "null":
		return "", nil
	case "prefill":
		return parley.RolePrefill, nil
	case "decode":
		return parley.RoleDecode, nil
	}
	return "", fmt.Errorf("its disaggregation_mode is %s: known are prefill and decode", strconv.Quote(s.Mode))
}
