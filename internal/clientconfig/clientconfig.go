// Package clientconfig edits the configuration files of programs that can use an
// OpenAI or Anthropic API, so that they use this server: TOML, JSON, YAML and
// variables of the environment.
//
// Each function takes a file as it is, which may be empty, puts the connection into it
// and leaves everything else in it alone. Doing so twice changes nothing. A file that
// cannot be edited without losing something is an error.
package clientconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A Connection is what a program must know of the server.
type Connection struct {
	// Root is the server's URL, without a path.
	Root string
	// Key is the API key; empty if none is needed.
	Key string
	// Model is the one to use, Models are all that there are.
	Model  Model
	Models []Model
}

// A Model is one that the server has. ContextTokens is 0 if it is not known.
type Model struct {
	ID            string
	ContextTokens int
}

// api is where the OpenAI interface begins.
func (c *Connection) api() string { return c.Root + "/v1" }

// anyKey is the key for clients that insist on one where the server asks for
// none.
const anyKey = "parley"

func (c *Connection) someKey() string { return cmp.Or(c.Key, anyKey) }

// Codex writes a profile of the Codex CLI, which talks the Responses API
// only.
func Codex(old []byte, c *Connection) ([]byte, error) {
	file := tomlFile{lines: strings.Split(strings.TrimRight(string(old), "\n"), "\n")}
	if len(old) == 0 {
		file.lines = nil
	}
	if c.Model.ContextTokens > 0 {
		file.set("", "model_context_window", fmt.Sprint(c.Model.ContextTokens))
	}
	file.set("", "model", tomlText(c.Model.ID))
	file.set("", "model_provider", tomlText("parley"))
	const table = "model_providers.parley"
	file.set(table, "name", tomlText("Parley"))
	file.set(table, "base_url", tomlText(c.api()))
	file.set(table, "wire_api", tomlText("responses"))
	if c.Key != "" {
		file.set(table, "env_key", tomlText("PARLEY_API_KEY"))
	}
	return []byte(strings.Join(file.lines, "\n") + "\n"), file.err
}

// A tomlFile is edited line by line, so that all else in it stays as it is.
type tomlFile struct {
	lines []string
	err   error
}

// set gives a key of a table a value; the table "" is what stands before all
// others. Values that do not fit one line are not touched.
func (f *tomlFile) set(table, key, value string) {
	line := key + " = " + value
	start, end, found := f.section(table)
	switch {
	case f.err != nil:
		return
	case !found:
		if len(f.lines) > 0 {
			f.lines = append(f.lines, "")
		}
		f.lines = append(f.lines, "["+table+"]", line)
		return
	}
	for i := start; i < end; i++ {
		name, rest, ok := strings.Cut(f.lines[i], "=")
		if ok && strings.Trim(strings.TrimSpace(name), `"'`) == key {
			if tomlOpens(rest) {
				f.err = fmt.Errorf("the value of %q has several lines", key)
				return
			}
			f.lines[i] = line
			return
		}
	}
	for end > start && strings.TrimSpace(f.lines[end-1]) == "" {
		end--
	}
	f.lines = slices.Insert(f.lines, end, line)
}

// section returns the lines of a table.
func (f *tomlFile) section(table string) (start, end int, found bool) {
	found = table == ""
	inside, closing := found, ""
	for i := range f.lines {
		line := strings.TrimSpace(f.lines[i])
		if closing != "" {
			if strings.Contains(line, closing) {
				closing = ""
			}
			continue
		}
		if mark := tomlOpener(line); mark != "" {
			closing = mark
			continue
		}
		name, header := tomlHeader(line)
		switch {
		case header && inside:
			return start, i, true
		case header && name == table:
			start, inside, found = i+1, true, true
		case header && strings.HasPrefix(name, table+".") && table != "", !header && table != "" &&
			strings.HasPrefix(line, table+"."):
			f.err = fmt.Errorf("it defines %q in a form that cannot be edited", table)
		}
	}
	if closing != "" {
		f.err = errors.New("it has an unterminated string")
	}
	return start, len(f.lines), found
}

// tomlHeader returns the name of the table that a line begins.
func tomlHeader(line string) (name string, ok bool) {
	inner, opens := strings.CutPrefix(line, "[")
	inner, _, closes := strings.Cut(inner, "]")
	if !opens || !closes || strings.HasPrefix(inner, "[") {
		return "", opens && closes
	}
	parts := strings.Split(inner, ".")
	for i, p := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(p), `"'`)
	}
	return strings.Join(parts, "."), true
}

// tomlOpener returns what closes a text of several lines that a line opens.
func tomlOpener(line string) string {
	for _, mark := range []string{`"""`, "'''"} {
		if strings.Count(line, mark) == 1 {
			return mark
		}
	}
	return ""
}

// tomlOpens reports whether a value continues on the next line.
func tomlOpens(value string) bool {
	value = strings.TrimSpace(value)
	return tomlOpener(value) != "" || strings.HasPrefix(value, "[") && !strings.Contains(value, "]") ||
		strings.HasPrefix(value, "{") && !strings.Contains(value, "}")
}

// tomlText is a text as TOML quotes it, which is as JSON does.
func tomlText(text string) string {
	quoted, err := encode(text)
	if err != nil {
		panic(fmt.Sprintf("a string is always JSON: %v", err))
	}
	return string(quoted)
}

// Claude sets the variables of Claude Code, which adds /v1/messages to the
// address itself.
func Claude(old []byte, c *Connection) ([]byte, error) {
	var variables [][2]string
	for _, name := range []string{"ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
		"ANTHROPIC_DEFAULT_HAIKU_MODEL"} {
		variables = append(variables, [2]string{name, c.Model.ID})
	}
	variables = append([][2]string{{"ANTHROPIC_BASE_URL", c.Root}, {"ANTHROPIC_AUTH_TOKEN", c.someKey()}}, variables...)
	variables = append(variables, [2]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"})
	if n := c.Model.ContextTokens; n > 0 { // it assumes a context of 200,000, and asks for answers of 32,000
		variables = append(variables, [2]string{"CLAUDE_CODE_MAX_OUTPUT_TOKENS", fmt.Sprint(min(32000, n/4))},
			[2]string{"CLAUDE_CODE_AUTO_COMPACT_WINDOW", fmt.Sprint(n)})
	}
	settings, err := jsonMembers(old)
	if err != nil {
		return nil, err
	}
	env, err := jsonMembers(settings.get("env"))
	if err != nil {
		return nil, fmt.Errorf("env: %w", err)
	}
	for _, v := range variables {
		if err := env.set(v[0], v[1]); err != nil {
			return nil, err
		}
	}
	if err := settings.set("env", env); err != nil {
		return nil, err
	}
	return indented(settings)
}

// VSCode adds a group of models to the list of VS Code.
func VSCode(old []byte, c *Connection) ([]byte, error) {
	var groups []json.RawMessage
	if len(bytes.TrimSpace(old)) > 0 {
		if err := json.Unmarshal(old, &groups); err != nil {
			return nil, notPlain(err)
		}
	}
	const name, vendor = "Parley", "customendpoint"
	var models []map[string]any
	for _, m := range c.Models {
		entry := map[string]any{"id": m.ID, "name": m.ID, "url": c.api() + "/chat/completions", "toolCalling": true,
			"vision": false}
		if m.ContextTokens > 0 {
			entry["maxOutputTokens"] = m.ContextTokens / 4
			entry["maxInputTokens"] = m.ContextTokens - m.ContextTokens/4
		}
		models = append(models, entry)
	}
	ours, err := json.Marshal(struct {
		Name    string `json:"name"`
		Vendor  string `json:"vendor"`
		APIKey  string `json:"apiKey"`
		APIType string `json:"apiType"`
		Models  any    `json:"models"`
	}{name, vendor, c.someKey(), "chat-completions", models})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(groups, func(raw json.RawMessage) bool {
		var g struct{ Name, Vendor string }
		return json.Unmarshal(raw, &g) == nil && g.Name == name && g.Vendor == vendor
	})
	if at < 0 {
		groups = append(groups, ours)
	} else {
		groups[at] = ours
	}
	return indented(groups)
}

// A jsonObject keeps its members in their order and as they were written.
type jsonObject []jsonMember

type jsonMember struct {
	name  string
	value json.RawMessage
}

func notPlain(err error) error {
	return fmt.Errorf("it is not plain JSON (comments cannot be kept): %w", err)
}

// jsonMembers reads an object; nothing is an empty one.
func jsonMembers(raw []byte) (o jsonObject, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if !json.Valid(raw) {
		return nil, notPlain(json.Unmarshal(raw, new(any)))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := jsonMember{name: name.(string)} // JSON has no other names
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	return o, nil
}

func (o jsonObject) get(name string) []byte {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (o *jsonObject) set(name string, value any) error {
	raw, err := encode(value)
	if err != nil {
		return err
	}
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = raw
			return nil
		}
	}
	*o = append(*o, jsonMember{name, raw})
	return nil
}

// MarshalJSON writes the members in their order.
func (o jsonObject) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := encode(m.name)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encode writes v as JSON on one line, with <, > and & as they are.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// OpenWebUI sets the variables of Open WebUI.
func OpenWebUI(old []byte, c *Connection) ([]byte, error) {
	var lines []string
	if len(old) > 0 {
		lines = strings.Split(strings.TrimRight(string(old), "\n"), "\n")
	}
	for _, v := range [][2]string{{"OPENAI_API_BASE_URL", c.api()}, {"OPENAI_API_KEY", c.someKey()},
		{"DEFAULT_MODELS", c.Model.ID}} {
		line := v[0] + "=" + v[1]
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), v[0]+"=") })
		if at < 0 {
			lines = append(lines, line)
		} else {
			lines[at] = line
		}
	}
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}

// A continueModel is an entry of Continue's list of models.
type continueModel struct {
	Name     string         `yaml:"name"`
	Provider string         `yaml:"provider"`
	Model    string         `yaml:"model"`
	APIBase  string         `yaml:"apiBase"`
	APIKey   string         `yaml:"apiKey"`
	Roles    []string       `yaml:"roles"`
	Options  map[string]int `yaml:"defaultCompletionOptions,omitempty"`
}

// continueMark begins the names of our entries.
const continueMark = "Parley "

// answersOf says how long a context is and how long answers may become: at most a quarter of it. Without that Continue
// asks for 4096 tokens, which a small context does not hold beside a prompt.
func answersOf(contextTokens, most int) map[string]int {
	return map[string]int{"contextLength": contextTokens, "maxTokens": min(most, max(contextTokens/4, 1))}
}

// Continue puts the models into Continue's list, in place of ours that are
// there.
func Continue(old []byte, c *Connection) ([]byte, error) {
	var models []continueModel
	for _, m := range c.Models {
		entry := continueModel{continueMark + m.ID, "openai", m.ID, c.api(), c.someKey(),
			[]string{"chat", "edit", "apply"}, nil}
		if m.ContextTokens > 0 {
			entry.Options = answersOf(m.ContextTokens, 4096)
		}
		models = append(models, entry)
	}
	if i := slices.IndexFunc(models, func(m continueModel) bool { return m.Model == c.Model.ID }); i >= 0 {
		// Continue sends the text on both sides of the cursor to the provider that it calls
		// mistral; the server puts them into the model's own fill-in-the-middle template.
		entry := models[i]
		entry.Name, entry.Provider, entry.Roles = entry.Name+" autocomplete", "mistral", []string{"autocomplete"}
		if entry.Options != nil {
			entry.Options = answersOf(entry.Options["contextLength"], 256)
		}
		models = append(models, entry)
	}
	ours, err := yaml.MarshalWithOptions(models, yaml.IndentSequence(true))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(ours), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ") // the list itself is indented, too
	}
	if len(bytes.TrimSpace(old)) == 0 {
		return []byte("name: Parley\nversion: 1.0.0\nschema: v1\nmodels:\n  " + strings.Join(lines, "\n  ") + "\n"), nil
	}
	merged, err := mergeModelList(string(old), lines)
	if err != nil {
		return nil, err
	}
	var check struct{ Models []continueModel }
	if err := yaml.Unmarshal(merged, &check); err != nil ||
		!slices.ContainsFunc(check.Models, func(m continueModel) bool { return m.Name == models[0].Name }) {
		return nil, errors.New("its list of models cannot be edited")
	}
	return merged, nil
}

// mergeModelList puts entries into the list of models of a YAML text, in place
// of those that we had put there. All other lines stay as they are.
func mergeModelList(old string, ours []string) ([]byte, error) {
	file, err := parser.ParseBytes([]byte(old), 0)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, errors.New("it is not one YAML document")
	}
	keys, ok := mapping(file.Docs[0].Body)
	if !ok {
		return nil, errors.New("it is not a mapping")
	}
	lines := strings.Split(strings.TrimRight(old, "\n"), "\n")
	at := slices.IndexFunc(keys, func(e *ast.MappingValueNode) bool { return e.Key.String() == "models" })
	if at < 0 {
		lines = append(append(lines, "models:"), prefixed("  ", ours)...)
		return []byte(strings.Join(lines, "\n") + "\n"), nil
	}
	list, ok := keys[at].Value.(*ast.SequenceNode)
	if !ok || list.IsFlowStyle || len(list.Entries) == 0 || len(list.Entries) != len(list.Values) {
		return nil, errors.New("models is not a block list")
	}
	end := len(lines)
	if at+1 < len(keys) {
		end = keys[at+1].Key.GetToken().Position.Line - 1
	}
	return replaceEntries(lines, list, end, ours), nil
}

// replaceEntries puts our entries into a list that goes up to the line end.
func replaceEntries(lines []string, list *ast.SequenceNode, end int, ours []string) []byte {
	first := list.Entries[0].Start.Position
	ours = prefixed(strings.Repeat(" ", first.Column-1), ours)
	place := beforeAsides(lines, first.Line, end)
	for i := len(list.Entries) - 1; i >= 0; i-- {
		start := list.Entries[i].Start.Position.Line - 1
		end = beforeAsides(lines, start+1, end)
		if isOurs(list.Values[i]) {
			lines = slices.Delete(lines, start, end)
			place = start
		}
		end = start
	}
	return []byte(strings.Join(slices.Insert(lines, place, ours...), "\n") + "\n")
}

// beforeAsides returns where the lines up to end really end: comments and empty
// lines after them belong to what follows.
func beforeAsides(lines []string, least, end int) int {
	for end > least {
		if line := strings.TrimSpace(lines[end-1]); line != "" && !strings.HasPrefix(line, "#") {
			break
		}
		end--
	}
	return end
}

func isOurs(n ast.Node) bool {
	var entry struct{ Name, Provider string }
	return yaml.NodeToValue(n, &entry) == nil && strings.HasPrefix(entry.Name, continueMark) &&
		(entry.Provider == "openai" || entry.Provider == "mistral")
}

func prefixed(prefix string, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = prefix + line
	}
	return out
}

// mapping returns the members of a node that is a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}
