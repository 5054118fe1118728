package dialect

import "strings"

// A callReader is where a reader stands inside a call.
type callReader struct {
	// steps are those of the call or of a member, at is the place in them.
	steps []readStep
	at    int
	// name, id and index are what was read of the head.
	name, id, index []byte
	value, rest     objectScan
	// members counts those of the arguments; key and kind belong to the one that is read.
	members   int
	key, kind []byte
	// tail are the steps behind the arguments.
	tail []readStep
	// raw: the value of the member is shown as a string while it grows. fresh: nothing of it came yet.
	raw, fresh bool
	// body is a value or arguments that are converted as a whole.
	body []byte
}

// enterCall begins to read a call whose opening is held.
func (r *Reader) enterCall(steps []readStep) {
	r.forgetMarks()
	r.state, r.call = readHead, callReader{steps: steps}
}

// feedStep takes a byte of a call's head or tail.
func (r *Reader) feedStep(b byte) {
	c := &r.call
	for c.at < len(c.steps) {
		took, moved := r.take(c.steps[c.at], b)
		if moved {
			c.at++
		}
		switch {
		case r.state != readHead && r.state != readTail:
			r.feed(b)
			return
		case took:
			r.held = append(r.held, b)
			if c.at == len(c.steps) {
				r.leaveCall()
			}
			return
		case !moved:
			r.fail(b)
			return
		}
	}
	r.leaveCall()
	r.feed(b)
}

// take offers b to a step: whether the step took it, and whether it is over.
func (r *Reader) take(s readStep, b byte) (took, moved bool) {
	c := &r.call
	switch s.kind {
	case stepByte:
		return b == s.b, b == s.b
	case stepSpace:
		return isSpaceByte(b), !isSpaceByte(b)
	case stepName:
		return collect(&c.name, b, isNameByte(b))
	case stepID:
		return collect(&c.id, b, isNameByte(b))
	case stepIndex:
		return collect(&c.index, b, b >= '0' && b <= '9')
	case stepRest:
		return c.rest.skips(b)
	case stepKey:
		return collect(&c.key, b, b != '>' && b != '"' && b != '<')
	case stepType:
		return collect(&c.kind, b, b != '"')
	}
	isCall := r.dialect.notCall == "" || string(c.name) != r.dialect.notCall
	if isCall && (r.dialect.values != object || b == '{') {
		r.showCall()
		return false, true
	}
	return false, false
}

// collect appends b where it belongs to what is read.
func collect(into *[]byte, b byte, belongs bool) (took, moved bool) {
	if belongs && len(*into) < nameBytesMax {
		*into = append(*into, b)
		return true, false
	}
	return false, len(*into) > 0
}

// fail finds that the held text is not a call.
func (r *Reader) fail(b byte) {
	again := append(r.held, b)
	r.held, r.blank = nil, 0
	wasTail := r.state != readHead
	r.state, r.silent = readText, false
	for _, mark := range r.dialect.drops {
		if rest, ok := strings.CutPrefix(string(again), mark); ok && !wasTail {
			r.known += len(mark)
			r.readAgain([]byte(rest))
			return
		}
	}
	if !wasTail {
		r.show(partText, again[0])
		again = again[1:]
	}
	r.readAgain(again)
}

func (r *Reader) readAgain(bytes []byte) {
	for _, b := range bytes {
		r.feed(b)
	}
}

// showCall shows that a call has begun: from here on it cannot be anything else.
func (r *Reader) showCall() {
	c := &r.call
	r.drop()
	r.flush()
	id := string(c.id)
	switch {
	case id != "":
	case r.dialect.ids == nameAndIndex:
		id = callID(string(c.name), string(c.index))
	default:
		id = r.newID()
	}
	r.out = append(r.out, Fragment{Call: &CallFragment{Index: r.begun, ID: id, Name: string(c.name)}})
	r.begun++
	switch r.dialect.values {
	case object:
		r.state, c.value = readArguments, objectScan{}
	case tagged:
		r.put("{")
		r.state, c.tail = readMembers, c.steps[c.at+1:]
	default:
		r.state, c.tail = readBody, c.steps[c.at+1:]
		r.closing = NewMatch(r.dialect.parts.shut)
	}
}

func callID(name, index string) string { return "functions." + name + ":" + index }

func (r *Reader) feedArguments(b byte) {
	r.show(partArguments, b)
	if r.call.value.ends(b) {
		r.endArguments()
	}
}

// endArguments has read all arguments of a call.
func (r *Reader) endArguments() {
	r.complete++
	r.state = readTail
	if r.call.at == len(r.call.steps) {
		r.leaveCall()
	}
}

// leaveCall has read a whole call.
func (r *Reader) leaveCall() {
	r.drop()
	r.state, r.silent = readText, true
	if r.dialect.open != "" {
		r.state = readNext
	}
}

// feedNext takes what stands between the calls of a section, and its end.
func (r *Reader) feedNext(b byte) {
	if r.hold(b); r.blank == len(r.held) {
		return
	}
	d, text := r.dialect, string(r.held[r.blank:])
	shut, between := strings.TrimSpace(d.shut), strings.TrimSpace(d.between)
	switch {
	case text == shut:
		r.drop()
		r.state, r.silent = readText, true
	case strings.HasPrefix(shut, text):
	case between != "" && text == between:
		r.enterCall(d.later)
	case between != "" && strings.HasPrefix(between, text):
	case between == "" && strings.HasPrefix(d.call, text):
		again := r.held
		r.held, r.blank = nil, 0
		r.enterCall(d.later)
		r.readAgain(again)
	default:
		again := r.held
		r.held, r.blank, r.state, r.silent = nil, 0, readText, false
		r.readAgain(again)
	}
}

// feedMembers finds out whether another member or the end of the arguments follows.
func (r *Reader) feedMembers(b byte) {
	if r.hold(b); r.blank == len(r.held) {
		return
	}
	parts, text := &r.dialect.parts, string(r.held[r.blank:])
	switch {
	case text == parts.open:
		r.drop()
		c := &r.call
		c.steps, c.at, c.key, c.kind = parts.steps, 0, nil, nil
		r.state = readMember
	case strings.HasPrefix(parts.open, text):
	default:
		again := append([]byte(nil), r.held[r.blank:]...)
		r.known += r.blank
		r.held, r.blank = nil, 0
		r.put("}")
		r.call.steps, r.call.at = r.call.tail, 0
		r.endArguments()
		r.readAgain(again)
	}
}

// feedMember takes a byte between the opening of a member and its value.
func (r *Reader) feedMember(b byte) {
	c := &r.call
	for {
		if c.steps[c.at].kind == stepValue {
			r.enterValue()
			r.feed(b)
			return
		}
		took, moved := r.take(c.steps[c.at], b)
		if moved {
			c.at++
		}
		if took {
			r.held = append(r.held, b)
			return
		}
		if !moved { // not a member: what was read of the call stays, and the rest is text
			r.put("}")
			r.complete++
			r.fail(b)
			return
		}
	}
}

// enterValue begins to read the value of a member.
func (r *Reader) enterValue() {
	c := &r.call
	r.drop()
	if c.members++; c.members > 1 {
		r.put(", ")
	}
	r.put(quote(string(c.key)) + ": ")
	r.state, r.closing, c.fresh, c.body = readValue, NewMatch(r.dialect.parts.end), true, nil
	c.raw = r.dialect.quoted[0] == "" && r.isRaw()
	if c.raw {
		r.put(`"`)
	}
}

// isRaw reports whether the value that is read is a string as it stands.
func (r *Reader) isRaw() bool {
	switch string(r.call.kind) {
	case "true", "string":
		return true
	case "":
		return r.memberSchema().isText()
	}
	return false
}

func (r *Reader) memberSchema() *schema {
	return r.schemas[string(r.call.name)].member(string(r.call.key))
}

// feedValue takes a byte of a value.
func (r *Reader) feedValue(b byte) {
	c, lines := &r.call, r.dialect.parts.lines
	r.held = append(r.held, b)
	if c.fresh && lines && b == '\n' {
		c.fresh = false
		r.drop()
		return
	}
	c.fresh = false
	certain, over := len(r.held), r.closing.Advance(b)
	if over {
		certain -= len(r.closing.pattern)
	} else {
		certain -= r.closing.matched
	}
	if n := certain - 1; lines && n >= 0 && r.held[n] == '\n' {
		certain = n
	}
	if c.raw {
		for _, b := range r.held[:certain] {
			r.put(escape(b))
		}
	} else {
		c.body = append(c.body, r.held[:certain]...)
	}
	r.known += certain
	r.held = append(r.held[:0], r.held[certain:]...)
	if over && !r.isInsideQuotes() {
		r.endValue()
	}
}

// isInsideQuotes finds that the end of a value stood inside of quotes and is a part of it.
func (r *Reader) isInsideQuotes() bool {
	quoted, c := r.dialect.quoted, &r.call
	text := string(c.body)
	if quoted[0] == "" || !strings.HasPrefix(text, quoted[0]) || strings.HasSuffix(text, quoted[1]) {
		return false
	}
	c.body = append(c.body, r.held...)
	r.drop()
	r.closing.matched = 0
	return true
}

func (r *Reader) endValue() {
	c := &r.call
	r.drop()
	if c.raw {
		r.put(`"`)
	} else {
		r.put(r.valueOf(string(c.body)))
	}
	r.state = readMembers
}

// valueOf returns the JSON of a value that was read as a whole.
func (r *Reader) valueOf(text string) string {
	quoted := r.dialect.quoted
	if inner, ok := strings.CutPrefix(text, quoted[0]); ok && quoted[0] != "" {
		return quote(strings.TrimSuffix(inner, quoted[1]))
	}
	if r.isRaw() {
		return quote(text)
	}
	return r.memberSchema().value(text)
}

// feedBody takes a byte of arguments that are converted as a whole.
func (r *Reader) feedBody(b byte) {
	c := &r.call
	r.held = append(r.held, b)
	c.body = append(c.body, b)
	if r.dialect.values == python {
		if b != ')' || !isBalanced(c.body[:len(c.body)-1]) {
			return
		}
		c.body = c.body[:len(c.body)-1]
	} else {
		if !r.closing.Advance(b) {
			return
		}
		c.body = c.body[:len(c.body)-len(r.closing.pattern)]
	}
	r.endBody()
	r.leaveCall()
}

// endBody converts arguments that were read as a whole.
func (r *Reader) endBody() {
	c, d := &r.call, r.dialect
	text, ok := "", false
	switch d.values {
	case nested:
		text, ok = readNested(string(c.body), strings.TrimSuffix(d.parts.shut, "</invoke>"), r.schemas[string(c.name)])
	case bare:
		text, ok = readLiteral("{"+string(c.body)+"}", d.quoted[0])
	case python:
		text, ok = readKeywords(string(c.body))
	}
	if !ok {
		text = `{"arguments": ` + quote(string(c.body)) + `}`
	}
	r.put(text)
	r.complete++
	r.state = readTail
	r.drop()
}
