package openai

import "cmp"

// documentsMax bounds how many documents are put in order at once.
const documentsMax = 1000

// A RerankRequest is a parsed body of POST /v1/rerank, as Jina and vLLM have it.
type RerankRequest struct {
	// Model is the name the client asked for; empty if it named none.
	Model string
	// Inputs are the query and, after it, the documents.
	Inputs []Prompt
	// Top is how many results are wanted: 1 to the number of documents.
	Top int
	// Quoted results say what their documents say.
	Quoted bool
}

// Documents are the texts that are put in order.
func (r *RerankRequest) Documents() []Prompt { return r.Inputs[1:] }

// ParseRerank reads a body of POST /v1/rerank.
func ParseRerank(body []byte) (*RerankRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &RerankRequest{Inputs: make([]Prompt, 1)}
	f.text("model", &r.Model)
	f.need("query", &r.Inputs[0].Text)
	r.Inputs[0].Param = "query"
	documents, ok := f.take("documents")
	if !ok {
		f.fail(f.missing("documents"))
		return nil, f.err
	}
	f.fail(r.readDocuments(documents))
	f.integer("top_n", 1, documentsMax, &r.Top)
	f.flag("return_documents", &r.Quoted)
	if f.err != nil {
		return nil, f.err
	}
	n := len(r.Documents())
	r.Top = min(cmp.Or(r.Top, n), n)
	return r, nil
}

// readDocuments takes texts, or objects with a member text.
func (r *RerankRequest) readDocuments(list value) error {
	if !list.isArray() {
		return list.wrongType("an array of strings")
	}
	for i, v := range list.elements() {
		if i == documentsMax {
			return list.invalid("array_above_max_length", "array too long. Expected at most %d documents.",
				documentsMax)
		}
		text, err := documentText(v)
		if err != nil {
			return err
		}
		if text == "" {
			return v.invalid("empty_string", "empty string. A document has at least one character.")
		}
		r.Inputs = append(r.Inputs, Prompt{Text: text, Param: v.path()})
	}
	if len(r.Inputs) == 1 {
		return list.invalid("empty_array", "empty array. Expected at least one document.")
	}
	return nil
}

func documentText(v value) (text string, err error) {
	if v.isString() {
		return v.text()
	}
	if !v.isObject() {
		return "", v.wrongType("a string or an object with the member 'text'")
	}
	f := v.fields()
	f.need("text", &text)
	return text, f.err
}

// A Ranking is the answer to a [RerankRequest]: the most relevant first.
type Ranking struct {
	ID      string           `json:"id"`
	Model   string           `json:"model"`
	Usage   EmbeddingUsage   `json:"usage"`
	Results []RankedDocument `json:"results"`
}

// A RankedDocument is one document of a ranking, by its place in the request.
type RankedDocument struct {
	Index          int             `json:"index"`
	RelevanceScore float64         `json:"relevance_score"`
	Document       *QuotedDocument `json:"document,omitempty"`
}

// A QuotedDocument says what a ranked document says.
type QuotedDocument struct {
	Text string `json:"text"`
}
