package native

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/token"
)

// A TokenizeRequest is the body of POST /tokenize. vLLM sends a prompt or messages, and
// llama.cpp a content.
type TokenizeRequest struct {
	Model            string          `json:"model"`
	Prompt           *string         `json:"prompt"`
	Messages         json.RawMessage `json:"messages"`
	AddSpecialTokens *bool           `json:"add_special_tokens"`
	ReturnTokenStrs  bool            `json:"return_token_strs"`
	Content          *string         `json:"content"`
	AddSpecial       bool            `json:"add_special"`
	ParseSpecial     *bool           `json:"parse_special"`
	WithPieces       bool            `json:"with_pieces"`

	body []byte
}

// Tokens is the answer of POST /tokenize in vLLM's shape.
type Tokens struct {
	Count       int            `json:"count"`
	MaxModelLen int            `json:"max_model_len"`
	Tokens      []parley.Token `json:"tokens"`
	TokenStrs   []string       `json:"token_strs"`
}

// PlainTokens is the answer of POST /tokenize in llama.cpp's shape: ids or, if they were
// asked for, pieces.
type PlainTokens struct {
	Tokens []any `json:"tokens"`
}

// A TokenPiece is a token with its text: a string, or its bytes where they are not text.
type TokenPiece struct {
	ID    parley.Token `json:"id"`
	Piece any          `json:"piece"`
}

func parseTokenize(body []byte) (r TokenizeRequest, err error) {
	r.body = body
	err = exchange.Decode(body, &r)
	given := 0
	for _, is := range []bool{r.Prompt != nil, r.Content != nil, len(r.Messages) > 0} {
		if is {
			given++
		}
	}
	if err == nil && given != 1 {
		err = parley.Invalid("prompt", "Send one of 'prompt', 'messages' and 'content'.")
	}
	return r, err
}

// Tokenize answers POST /tokenize.
func Tokenize(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, parseTokenize)
	if err != nil {
		return err
	}
	m, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	tokens, err := request.tokens(m)
	switch {
	case err != nil:
		return err
	case request.Content != nil:
		return x.Reply(http.StatusOK, request.plain(m, tokens))
	}
	answer := Tokens{Count: len(tokens), MaxModelLen: m.ContextTokens, Tokens: tokens}
	if request.ReturnTokenStrs {
		answer.TokenStrs = []string{}
		for _, id := range tokens {
			answer.TokenStrs = append(answer.TokenStrs, m.TokenText(id))
		}
	}
	return x.Reply(http.StatusOK, answer)
}

// tokens returns the tokens that a request asks for.
func (r *TokenizeRequest) tokens(m *models.Model) (tokens []parley.Token, err error) {
	switch {
	case len(r.Messages) > 0:
		chat, err := openai.ParseChat(r.body)
		if err != nil {
			return nil, err
		}
		if err := m.CheckChat(chat); err != nil {
			return nil, err
		}
		tokens, _, err = m.Render(chat)
		return tokens, err
	case r.Content != nil:
		tokens, err = encode(m, "content", *r.Content,
			token.Options{AddSpecial: r.AddSpecial, ParseSpecial: r.ParseSpecial == nil || *r.ParseSpecial})
	default:
		tokens, err = encode(m, "prompt", *r.Prompt,
			token.Options{AddSpecial: r.AddSpecialTokens == nil || *r.AddSpecialTokens, ParseSpecial: true})
	}
	if tokens == nil {
		tokens = []parley.Token{} // an empty text is an empty list
	}
	return tokens, err
}

// tokenizeContexts is how many contexts long a text may be that is only tokenized: the
// request bounds the memory that this takes.
const tokenizeContexts = 1

// encode returns the tokens of a text, unless its bytes alone say that they cannot fit
// several contexts.
func encode(m *models.Model, param, text string, options token.Options) ([]parley.Token, error) {
	if err := m.CheckPrompts([]openai.Prompt{{Text: text, Param: param}}, nil, tokenizeContexts); err != nil {
		return nil, err
	}
	return m.Encode(param, text, options)
}

// plain returns tokens in llama.cpp's shape.
func (r *TokenizeRequest) plain(m *models.Model, tokens []parley.Token) PlainTokens {
	answer := PlainTokens{Tokens: make([]any, len(tokens))}
	for i, id := range tokens {
		if answer.Tokens[i] = id; r.WithPieces {
			answer.Tokens[i] = TokenPiece{ID: id, Piece: pieceOf(m.Tokenizer.Bytes(id))}
		}
	}
	return answer
}

// pieceOf returns the text of a token, or its bytes as numbers where they are not text.
func pieceOf(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return openai.ByteValues(b)
}

// A DetokenizeRequest is the body of POST /detokenize.
type DetokenizeRequest struct {
	Model  string         `json:"model"`
	Tokens []parley.Token `json:"tokens"`
}

// Detokenization is the answer of POST /detokenize: Prompt is vLLM's name for it, Content llama.cpp's.
type Detokenization struct {
	Prompt  string `json:"prompt"`
	Content string `json:"content"`
}

func parseDetokenize(body []byte) (r DetokenizeRequest, err error) {
	err = exchange.Decode(body, &r)
	if err == nil && r.Tokens == nil {
		err = parley.Invalid("tokens", "Missing required parameter: 'tokens'.")
	}
	return r, err
}

// Detokenize answers POST /detokenize.
func Detokenize(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, parseDetokenize)
	if err != nil {
		return err
	}
	m, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	for i, id := range request.Tokens {
		if id < 0 || int(id) >= m.VocabTokens {
			return parley.Invalid("tokens",
				"Invalid 'tokens[%d]': token id %d is outside the model's vocabulary of %d tokens.", i, id,
				m.VocabTokens)
		}
	}
	text := m.Tokenizer.Decode(request.Tokens, false)
	return x.Reply(http.StatusOK, Detokenization{Prompt: text, Content: text})
}

// RenderedPrompt is the answer of POST /apply-template.
type RenderedPrompt struct {
	Prompt string `json:"prompt"`
}

// ApplyTemplate answers POST /apply-template: a conversation as the model's template
// renders it.
func ApplyTemplate(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseChat)
	if err != nil {
		return err
	}
	m, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	if err := m.CheckChat(request); err != nil {
		return err
	}
	text, err := m.RenderText(request)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, RenderedPrompt{Prompt: text})
}
