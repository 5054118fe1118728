package openai

// moderationInputsMax bounds the texts of one request.
const moderationInputsMax = 256

// A ModerationRequest asks what is wrong with texts.
type ModerationRequest struct {
	Model string
	// Inputs has at least one entry.
	Inputs []string
}

// ParseModeration reads the body of POST /v1/moderations: a text, a list of
// texts, or a list of parts of type text. An error is always a [parley.Error]
// that names the field at fault.
func ParseModeration(body []byte) (*ModerationRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &ModerationRequest{}
	f.text("model", &r.Model)
	if v, ok := f.take("input"); ok {
		if r.Inputs, err = moderationInputs(v); err != nil {
			f.fail(err)
		}
	} else {
		f.fail(f.missing("input"))
	}
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

func moderationInputs(v value) ([]string, error) {
	if v.isString() {
		text, err := v.text()
		return []string{text}, err
	}
	if !v.isArray() || v.isEmptyArray() {
		return nil, v.wrongType("a string or an array of strings that is not empty")
	}
	var inputs []string
	for i, e := range v.elements() {
		if i == moderationInputsMax {
			return nil, v.invalid("array_above_max_length",
				"array too long. At most %d texts are judged in one request.", moderationInputsMax)
		}
		text, err := moderationPart(e)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, text)
	}
	return inputs, nil
}

// moderationPart reads a text, or the text of a part.
func moderationPart(v value) (text string, err error) {
	if !v.isObject() {
		return v.text()
	}
	f := v.fields()
	kind := ""
	f.text("type", &kind)
	if kind != "text" && f.err == nil {
		return "", v.unsupported("only parts of type 'text' can be judged, not %q.", shorten(kind))
	}
	f.text("text", &text)
	return text, f.err
}

// A Moderation is the answer of POST /v1/moderations.
type Moderation struct {
	ID      string             `json:"id"`
	Model   string             `json:"model"`
	Results []ModerationResult `json:"results"`
}

// A ModerationResult is what is wrong with one text. The categories are
// OpenAI's; injection, secrets and pii are further ones of ours.
type ModerationResult struct {
	Flagged bool                `json:"flagged"`
	Is      map[string]bool     `json:"categories"`
	Scores  map[string]float32  `json:"category_scores"`
	Applied map[string][]string `json:"category_applied_input_types"`
}
