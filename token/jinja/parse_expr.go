package jinja

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// tupleSyntax says which of the forms of an expression list is allowed.
type tupleSyntax struct {
	// withCond allows "a if b else c".
	withCond bool
	// end is a name that ends the list after a comma.
	end string
	// isTarget allows only names, literals and parentheses; withAttr also
	// allows namespace attributes.
	isTarget, withAttr bool
	// inParens makes the empty list an empty tuple.
	inParens bool
}

// parseTuple parses one expression, or several between commas as a tuple.
func (p *parser) parseTuple(form tupleSyntax) (expr, error) {
	var items []expr
	isTuple := false
	for {
		if p.atTupleEnd(form.end) {
			break
		}
		item, err := p.parseTupleItem(form)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	if isTuple || (len(items) == 0 && form.inParens) {
		return &tupleExpr{items: items}, nil
	}
	if len(items) == 0 {
		return nil, p.errorf("expected an expression, got %s", describe(p.cur()))
	}
	return items[0], nil
}

func (p *parser) parseTupleItem(form tupleSyntax) (expr, error) {
	if form.isTarget {
		return p.parsePrimary(true, form.withAttr)
	}
	return p.parseExpr(form.withCond)
}

func (p *parser) atTupleEnd(end string) bool {
	t := p.cur()
	return t.kind == tokenVarEnd || t.kind == tokenBlockEnd || t.is(tokenOp, ")") ||
		(end != "" && t.is(tokenName, end))
}

func (p *parser) parseExpr(withCond bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	if !withCond {
		return p.parseOr()
	}
	from := len(p.unknowns)
	line := p.cur().line
	e, err := p.parseOr()
	for err == nil && p.skipName("if") {
		cond := &condExpr{then: e, line: line}
		if cond.test, err = p.parseOr(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			cond.otherwise, err = p.parseExpr(true)
		}
		p.forgive(from)
		e = cond
	}
	return e, err
}

func (p *parser) parseOr() (expr, error) {
	return p.parseLogic("or", func() (expr, error) {
		return p.parseLogic("and", p.parseNot)
	})
}

func (p *parser) parseLogic(word string, operand func() (expr, error)) (expr, error) {
	first, err := operand()
	if err != nil || !p.cur().is(tokenName, word) {
		return first, err
	}
	chain := &logicExpr{parts: []expr{first}, isOr: word == "or"}
	for p.skipName(word) {
		part, err := operand()
		if err != nil {
			return nil, err
		}
		chain.parts = append(chain.parts, part)
	}
	return chain, nil
}

func (p *parser) parseNot() (expr, error) {
	if !p.skipName("not") {
		return p.parseCompare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.parseNot()
	return &notExpr{of: e}, err
}

var compareOps = map[string]compareOp{
	"==": opEq, "!=": opNe, "<": opLt, "<=": opLe, ">": opGt, ">=": opGe,
}

func (p *parser) parseCompare() (expr, error) {
	first, err := p.parseSum()
	if err != nil {
		return nil, err
	}
	chain := &compareExpr{first: first}
	for {
		op, ok := p.parseCompareOp()
		if !ok {
			break
		}
		operand, err := p.parseSum()
		if err != nil {
			return nil, err
		}
		chain.ops, chain.rest = append(chain.ops, op), append(chain.rest, operand)
	}
	if len(chain.ops) == 0 {
		return first, nil
	}
	return chain, nil
}

func (p *parser) parseCompareOp() (compareOp, bool) {
	t := p.cur()
	if t.kind == tokenOp {
		if op, ok := compareOps[t.text]; ok {
			p.next()
			return op, true
		}
		return 0, false
	}
	if p.skipName("in") {
		return opIn, true
	}
	if t.is(tokenName, "not") && p.look().is(tokenName, "in") {
		p.next()
		p.next()
		return opNotIn, true
	}
	return 0, false
}

func (p *parser) parseSum() (expr, error) {
	return p.parseArith([]string{"+", "-"}, p.parseConcat)
}

func (p *parser) parseConcat() (expr, error) {
	first, err := p.parseProduct()
	if err != nil || !p.isOp("~") {
		return first, err
	}
	chain := &concatExpr{parts: []expr{first}}
	for p.skipOp("~") {
		part, err := p.parseProduct()
		if err != nil {
			return nil, err
		}
		chain.parts = append(chain.parts, part)
	}
	return chain, nil
}

func (p *parser) parseProduct() (expr, error) {
	return p.parseArith([]string{"*", "/", "//", "%"}, p.parsePower)
}

func (p *parser) parsePower() (expr, error) {
	return p.parseArith([]string{"**"}, func() (expr, error) { return p.parseUnary(true) })
}

// opCodes names the two-byte operators with one byte.
var opCodes = map[string]byte{"+": '+', "-": '-', "*": '*', "/": '/', "//": 'd', "%": '%', "**": 'p'}

func (p *parser) parseArith(ops []string, operand func() (expr, error)) (expr, error) {
	first, err := operand()
	if err != nil {
		return nil, err
	}
	chain := &arithExpr{first: first}
	for p.cur().kind == tokenOp && slices.Contains(ops, p.cur().text) {
		op := opCodes[p.next().text]
		part, err := operand()
		if err != nil {
			return nil, err
		}
		chain.ops, chain.rest = append(chain.ops, op), append(chain.rest, part)
	}
	if len(chain.ops) == 0 {
		return first, nil
	}
	return chain, nil
}

// parseUnary parses a sign, a primary and what follows it. A filter after a
// signed number applies to the signed number.
func (p *parser) parseUnary(withFilter bool) (e expr, err error) {
	switch {
	case p.isOp("-"), p.isOp("+"):
		if err := p.enter(); err != nil {
			return nil, err
		}
		negate := p.next().text == "-"
		e, err = p.parseUnary(false)
		p.leave()
		e = &signExpr{of: e, negate: negate}
	default:
		e, err = p.parsePrimary(false, false)
	}
	if err != nil {
		return nil, err
	}
	if e, err = p.parsePostfix(e); err != nil || !withFilter {
		return e, err
	}
	return p.parseFilterTail(e)
}

func (p *parser) parsePrimary(isTarget, withAttr bool) (expr, error) {
	t := p.next()
	switch t.kind {
	case tokenName:
		return p.parseNameOrConst(t.text, isTarget, withAttr)
	case tokenString:
		parts := []string{t.text}
		for p.cur().kind == tokenString {
			parts = append(parts, p.next().text)
		}
		return &constExpr{value: Own(strings.Join(parts, ""))}, nil
	case tokenInt:
		return p.intConst(t.text)
	case tokenFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil && f == 0 {
			return nil, p.errorf("bad number %q", t.text)
		}
		return &constExpr{value: f}, nil
	case tokenOp:
		switch t.text {
		case "(":
			return p.parseParens(isTarget)
		case "[":
			return p.parseList()
		case "{":
			return p.parseDict()
		}
	}
	if t.kind != tokenEOF {
		p.pos--
	}
	return nil, p.errorf("unexpected %s", describe(t))
}

func (p *parser) parseParens(isTarget bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.parseTuple(tupleSyntax{withCond: true, inParens: true, isTarget: isTarget})
	if err != nil {
		return nil, err
	}
	return e, p.expectOp(")")
}

func (p *parser) parseNameOrConst(name string, isTarget, withAttr bool) (expr, error) {
	switch name {
	case "true", "True":
		return &constExpr{value: true}, nil
	case "false", "False":
		return &constExpr{value: false}, nil
	case "none", "None":
		return &constExpr{value: nil}, nil
	}
	e := &nameExpr{id: p.id(name)}
	if withAttr && p.skipOp(".") {
		attr, err := p.expectName()
		return &attrExpr{of: e, name: attr}, err
	}
	if !isTarget {
		p.noteName(name, e.id)
	}
	return e, nil
}

func (p *parser) intConst(text string) (expr, error) {
	n, ok := new(big.Int).SetString(text, 0)
	if !ok || n.BitLen() > intBitsMax {
		return nil, p.errorf("bad or too long integer of %d digits", len(text))
	}
	return &constExpr{value: shrink(n)}, nil
}

func (p *parser) parseList() (expr, error) {
	list := &listExpr{}
	for !p.isOp("]") {
		if len(list.items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp("]") {
				break
			}
		}
		item, err := p.parseExpr(true)
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, item)
	}
	return list, p.expectOp("]")
}

func (p *parser) parseDict() (expr, error) {
	dict := &dictExpr{}
	for !p.isOp("}") {
		if len(dict.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp("}") {
				break
			}
		}
		key, err := p.parseExpr(true)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		value, err := p.parseExpr(true)
		if err != nil {
			return nil, err
		}
		dict.keys, dict.values = append(dict.keys, key), append(dict.values, value)
	}
	return dict, p.expectOp("}")
}
