package dialect

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parley"
	"parley/token"
	"parley/token/jinja"
)

// A Tool is a tool as calls of it are written.
type Tool struct {
	Name string
	// Arguments is the grammar of the arguments as one JSON object, Schema what they have to satisfy otherwise.
	Arguments parley.Grammar
	Schema    json.RawMessage
	Strict    bool
}

// Holds reports whether the grammar of a call holds its arguments to all that their schema says.
func (d *Syntax) Holds(t Tool) bool {
	return d.values == object || t.Schema == nil || parseSchema(t.Schema).isMembersOnly()
}

// Calls writes an answer that is nothing but calls: least, which is 0 or 1, or more. Each tool stands in it once if
// that can be, for the engine's sake.
func (d *Syntax) Calls(tools []Tool, least int, single bool) parley.Grammar {
	most := 0
	if single || d.single {
		most = 1
	}
	if d.open == "" && d.primer == "" && d.lead == "" {
		one := append(d.oneCall(tools, d.call, d.begin), d.afterCall())
		return parley.Repeat(parley.Sequence(one...), least, most)
	}
	all := d.oneCall(tools, d.open+d.call, d.begin)
	if d.primer != "" {
		all = d.oneCall(tools, strings.TrimPrefix(d.call, d.primer), "")
	}
	if most != 1 {
		all = append(all, parley.Repeat(parley.Sequence(d.anotherCall(tools)...), 0, 0))
	}
	if d.shut != "" {
		all = append(all, parley.Literal(d.shut))
	}
	return parley.Repeat(parley.Sequence(all...), least, 1)
}

// afterCall may stand after a call. At the end it does no harm.
func (d *Syntax) afterCall() parley.Grammar {
	if d.between == "" || d.single {
		return parley.Literal("")
	}
	return parley.Optional(parley.Literal(d.between))
}

// MayCall writes an answer in which the model decides whether it calls. Once it has written the begin of a call, it
// must write a valid one, and nothing but calls follows.
func (d *Syntax) MayCall(tools []Tool, single bool) parley.Grammar {
	never := parley.Choice()
	switch {
	case d.onlyFirst:
		calls := parley.Sequence(parley.Optional(parley.Literal(d.mark)), d.Calls(tools, 1, single))
		return parley.Choice(append(unlike(d.begin, d.mark), calls)...)
	case d.next != "":
		text := parley.FreeText(parley.GrammarTrigger{Text: d.next, Then: never})
		return parley.Choice(parley.Sequence(parley.Literal(d.head), text), d.Calls(tools, 1, single))
	}
	text := parley.FreeText(parley.GrammarTrigger{Text: d.begin, Then: never})
	return parley.Sequence(text, d.Calls(tools, 0, single))
}

// Text writes an answer that is a text of the given grammar.
func (d *Syntax) Text(g parley.Grammar) parley.Grammar {
	if d.head == "" {
		return g
	}
	return parley.Sequence(parley.Literal(d.head), g)
}

// oneCall writes a call of any one of the tools by a pattern that begins with begin.
func (d *Syntax) oneCall(tools []Tool, pattern, begin string) []parley.Grammar {
	calls := make([]parley.Grammar, len(tools))
	for i, t := range tools {
		calls[i] = d.callOf(t, strings.TrimPrefix(pattern, begin))
	}
	if d.lead != "" {
		for i, t := range tools {
			lead := strings.ReplaceAll(d.lead, "$NAME", t.Name)
			calls[i] = parley.Sequence(parley.Literal(lead+begin), calls[i])
		}
		return []parley.Grammar{parley.Choice(calls...)}
	}
	return []parley.Grammar{parley.Literal(begin), parley.Choice(calls...)}
}

// anotherCall writes a call behind another one.
func (d *Syntax) anotherCall(tools []Tool) []parley.Grammar {
	if d.lead != "" {
		return append([]parley.Grammar{parley.Literal(d.between)}, d.oneCall(tools, d.call, d.begin)...)
	}
	return d.oneCall(tools, d.between+d.call, d.between)
}

// callOf writes a call of a tool. No name holds the sign that begins the words for what differs.
func (d *Syntax) callOf(t Tool, pattern string) parley.Grammar {
	var all sequence
	for pattern != "" {
		word, kind, ok := leadingWord(pattern)
		if !ok {
			word = pattern[:1]
		}
		pattern = pattern[len(word):]
		switch {
		case !ok:
			all.literal += word
		case kind == stepName:
			all.literal += t.Name
		case kind == stepID:
			all.add(parley.Regex("[a-zA-Z0-9]{9}"))
		case kind == stepIndex:
			all.add(parley.Regex("[0-9]{1,3}"))
		case d.values == object:
			all.add(t.Arguments)
		default:
			all.add(d.members(t))
		}
	}
	return all.grammar()
}

// A sequence collects grammars and the literals between them.
type sequence struct {
	literal string
	parts   []parley.Grammar
}

func (s *sequence) add(g parley.Grammar) {
	if s.literal != "" {
		s.parts = append(s.parts, parley.Literal(s.literal))
	}
	s.literal, s.parts = "", append(s.parts, g)
}

func (s *sequence) grammar() parley.Grammar {
	if s.literal != "" {
		s.parts = append(s.parts, parley.Literal(s.literal))
	}
	return parley.Sequence(s.parts...)
}

// members writes the arguments of a tool, one by one: those of its schema in their order or, where it has none, any.
func (d *Syntax) members(t Tool) parley.Grammar {
	s := parseSchema(t.Schema)
	if s == nil || !s.isMembersOnly() && !t.Strict {
		if t.Schema == nil {
			return parley.Literal("")
		}
		return d.anyMembers()
	}
	s.strict = t.Strict
	return d.membersFrom(s, s.names(), true)
}

// membersFrom writes the members with the given names. First says that none stands before them: then nothing separates
// the next one.
func (d *Syntax) membersFrom(s *schema, names []string, first bool) parley.Grammar {
	if len(names) == 0 {
		return parley.Literal("")
	}
	required := slices.Contains(s.Required, names[0])
	before := d.memberBetween
	if first {
		before = ""
	}
	member := parley.Sequence(parley.Literal(before), d.memberOf(s, names[0]))
	if d.memberBetween == "" || !first {
		if !required {
			member = parley.Optional(member)
		}
		return parley.Sequence(member, d.membersFrom(s, names[1:], first))
	}
	with := parley.Sequence(member, d.membersFrom(s, names[1:], false))
	if required {
		return with
	}
	return parley.Choice(with, d.membersFrom(s, names[1:], true))
}

func (d *Syntax) memberOf(s *schema, name string) parley.Grammar {
	member, kind := s.member(name), "(?:number|boolean|null|object|array)"
	isText := member.isText()
	if isText {
		kind = "string"
	}
	alone := parley.JSONSchema(s.alone(name), s.strict)
	var all sequence
	for pattern := d.member; pattern != ""; {
		word, step, ok := leadingWord(pattern)
		if !ok {
			word = pattern[:1]
		}
		pattern = pattern[len(word):]
		switch {
		case !ok:
			all.literal += word
		case step == stepKey:
			all.literal += name
		case word == "$STRING":
			all.literal += strconv.FormatBool(isText)
		case step == stepType:
			all.add(parley.Regex(kind))
		default:
			all.add(d.valueOf(member, alone, pattern))
		}
	}
	return all.grammar()
}

// valueOf writes a value before what ends it: a string as it is, others as JSON of grammar alone.
func (d *Syntax) valueOf(member *schema, alone parley.Grammar, end string) parley.Grammar {
	if !member.isText() || d.values == python {
		return alone
	}
	open, shut := d.quoted[0], d.quoted[1]
	if d.values != bare {
		open, shut = "", strings.TrimSpace(strings.ReplaceAll(end, "$KEY", ""))
	}
	text := parley.Regex(textBefore(shut))
	if len(member.Enum) > 0 {
		var texts []parley.Grammar
		for _, v := range member.Enum {
			texts = append(texts, parley.Literal(v.(string)))
		}
		text = parley.Choice(texts...)
	}
	if open == "" {
		return text
	}
	return parley.Sequence(parley.Literal(open), text, parley.Literal(shut))
}

// anyMembers writes any members with any values.
func (d *Syntax) anyMembers() parley.Grammar {
	before, after, _ := strings.Cut(d.member, "$KEY")
	after = strings.NewReplacer("$STRING", "true", "$TYPE", "string").Replace(after)
	upTo, end, _ := strings.Cut(after, "$VALUE")
	key, value := parley.Regex("[a-zA-Z0-9_]{1,64}"), parley.JSONSchema([]byte("{}"), false)
	if d.values == tagged {
		value = parley.Regex(textBefore(strings.TrimSpace(end)))
	}
	if strings.Contains(end, "$KEY") { // the same name again, which a grammar cannot say
		return parley.Literal("")
	}
	one := parley.Sequence(parley.Literal(before), key, parley.Literal(upTo), value, parley.Literal(end))
	if d.memberBetween == "" {
		return parley.Repeat(one, 0, 0)
	}
	more := parley.Repeat(parley.Sequence(parley.Literal(d.memberBetween), one), 0, 0)
	return parley.Optional(parley.Sequence(one, more))
}

// unlike writes any text that begins with none of the openings, of which no two begin alike.
func unlike(openings ...string) []parley.Grammar {
	var first strings.Builder
	var texts []parley.Grammar
	for _, opening := range openings {
		first.WriteString(regexp.QuoteMeta(opening[:1]))
		for i := 1; i < len(opening); i++ {
			texts = append(texts, parley.Literal(opening[:i]),
				parley.Sequence(parley.Literal(opening[:i]), parley.Regex("[^"+regexp.QuoteMeta(opening[i:i+1])+"]"),
					parley.FreeText()))
		}
	}
	return append(texts, parley.Literal(""), parley.Sequence(parley.Regex("[^"+first.String()+"]"), parley.FreeText()))
}

// AfterThoughts lets a model think before an answer of grammar g. Inside says that the prompt ends inside thoughts.
func (t *Thoughts) AfterThoughts(g parley.Grammar, inside bool) parley.Grammar {
	if t == nil {
		return g
	}
	end := []parley.Grammar{parley.Regex(textBefore(t.shut)), parley.Literal(t.shut), parley.Regex(`\s{0,2}`)}
	if t.then != "" {
		end = append(end, parley.Literal(t.then))
	}
	rest := parley.Sequence(end...)
	thoughts := rest
	if !inside {
		thoughts = parley.Optional(parley.Sequence(parley.Literal(t.Open), rest))
	}
	return parley.Sequence(thoughts, g)
}

// textBefore is an expression for any text that does not hold mark, or the beginning of mark in which its first
// character does not stand again.
func textBefore(mark string) string {
	runes := []rune(mark)
	for i := 1; i < len(runes); i++ {
		if runes[i] == runes[0] {
			runes = runes[:i]
		}
	}
	first := regexp.QuoteMeta(string(runes[0]))
	var partial, broken []string
	for i := 1; i < len(runes); i++ {
		begun := regexp.QuoteMeta(string(runes[:i]))
		partial = append(partial, begun)
		broken = append(broken, begun+"[^"+regexp.QuoteMeta(string(runes[i]))+first+"]")
	}
	again := "(?:" + strings.Join(partial, "|") + ")*"
	return "(?:[^" + first + "]|" + again + "(?:" + strings.Join(broken, "|") + "))*" + again
}

// callsText writes earlier calls as a model would. The marks around them are the gateway's own text, so they are read
// as control tokens where the vocabulary has them; names and arguments are data.
func (d *Syntax) callsText(calls []token.ToolCall) jinja.Value {
	var parts []jinja.Value
	own := func(text string) { parts = append(parts, jinja.Own(text)) }
	own(d.open)
	for i, c := range calls {
		if i > 0 {
			own(d.between)
		}
		parts = append(parts, d.expand(d.call, func(kind stepKind) jinja.Value {
			switch kind {
			case stepName:
				return c.Name
			case stepID:
				return c.ID
			case stepIndex:
				return strconv.Itoa(i)
			}
			return d.argumentsText(c.Arguments)
		}))
	}
	own(d.shut)
	return jinja.Concat(parts...)
}

// expand writes a pattern with the values of its words.
func (d *Syntax) expand(pattern string, value func(stepKind) jinja.Value) jinja.Value {
	var parts []jinja.Value
	for pattern != "" {
		word, kind, ok := leadingWord(pattern)
		if ok {
			parts = append(parts, value(kind))
		} else {
			word = pattern[:1]
			parts = append(parts, jinja.Own(word))
		}
		pattern = pattern[len(word):]
	}
	return jinja.Concat(parts...)
}

// argumentsText writes the arguments of an earlier call, given as JSON.
func (d *Syntax) argumentsText(arguments string) jinja.Value {
	var members map[string]json.RawMessage
	if d.values == object || json.Unmarshal([]byte(arguments), &members) != nil {
		return arguments
	}
	order := (&schema{raw: map[string]json.RawMessage{"properties": json.RawMessage(arguments)}}).names()
	var parts []jinja.Value
	for i, name := range order {
		if i > 0 {
			parts = append(parts, jinja.Own(d.memberBetween))
		}
		text := ""
		isText := json.Unmarshal(members[name], &text) == nil && d.values != python
		if !isText {
			text = string(members[name])
		}
		parts = append(parts, d.expand(d.member, func(kind stepKind) jinja.Value {
			switch kind {
			case stepKey:
				return name
			case stepType:
				return strconv.FormatBool(isText)
			}
			return text
		}))
	}
	return jinja.Concat(parts...)
}
