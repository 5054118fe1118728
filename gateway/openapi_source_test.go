package gateway

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// A apiSchema is a part of a description in JSON Schema.
type apiSchema map[string]any

// A sourceReader finds in a package's sources which members its parsers read: the calls of
// methods such as f.text("model", …), and the fields of the structs that bodies are decoded
// into.
type sourceReader struct {
	t      *testing.T
	funcs  map[string][]*ast.FuncDecl
	values map[string]ast.Expr
	types  map[string]*ast.StructType
}

func readSources(t *testing.T, folder string) *sourceReader {
	r := &sourceReader{t, map[string][]*ast.FuncDecl{}, map[string]ast.Expr{}, map[string]*ast.StructType{}}
	files, err := filepath.Glob(filepath.Join(testkit.Root(), folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			r.declare(d)
		}
	}
	return r
}

func (r *sourceReader) declare(d ast.Decl) {
	if f, ok := d.(*ast.FuncDecl); ok {
		r.funcs[f.Name.Name] = append(r.funcs[f.Name.Name], f)
		return
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for i := range min(len(s.Names), len(s.Values)) {
				r.values[s.Names[i].Name] = s.Values[i]
			}
		case *ast.TypeSpec:
			if fields, ok := s.Type.(*ast.StructType); ok {
				r.types[s.Name.Name] = fields
			}
		}
	}
}

// request describes the body that a parser reads.
func (r *sourceReader) request(parser string) apiSchema {
	found := r.funcs[parser]
	if len(found) != 1 {
		r.t.Fatalf("there are %d functions %s", len(found), parser)
	}
	object := newObject()
	object["x-subject"] = "f"
	r.walk(found[0].Body, receiverOf(found[0]), object, nil, map[string]bool{parser: true})
	delete(object, "x-subject")
	if len(object["properties"].(apiSchema)) == 0 {
		r.t.Errorf("%s reads no member", parser)
	}
	return object
}

func newObject() apiSchema { return apiSchema{"type": "object", "properties": apiSchema{}} }

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	return strings.TrimPrefix(exprName(f.Recv.List[0].Type), "*")
}

// walk adds the members that a function reads. Receivers are told apart by the type that
// the function makes or has. Given are the texts that parameters stand for.
func (r *sourceReader) walk(body ast.Node, receiver string, object apiSchema, given map[string][]string,
	seen map[string]bool) {
	loops := map[string][]string{}
	maps.Copy(loops, given)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if value, ok := n.Value.(*ast.Ident); ok {
				loops[value.Name] = r.texts(n.X)
			}
		case *ast.CompositeLit:
			if name := exprName(n.Type); strings.HasSuffix(name, "Request") {
				receiver = name
			}
		case *ast.ValueSpec:
			if fields, ok := n.Type.(*ast.StructType); ok {
				r.structFields(fields, object)
			}
		case *ast.CallExpr:
			return r.call(n, receiver, object, loops, seen)
		}
		return true
	})
}

// call reads one call, and reports whether to look into it.
func (r *sourceReader) call(c *ast.CallExpr, receiver string, object apiSchema, loops map[string][]string,
	seen map[string]bool) bool {
	name := exprName(c.Fun)
	method := name[strings.LastIndexByte(name, '.')+1:]
	subject := strings.TrimSuffix(name, "."+method)
	if kind, ok := readerKinds[method]; ok && len(c.Args) > 0 {
		if subject != object["x-subject"] { // it reads another object
			return true
		}
		for _, member := range r.names(c.Args[0], loops) {
			r.member(object, member, kind, c, seen)
		}
		return false
	}
	if method == "missing" && len(c.Args) == 1 && subject == object["x-subject"] {
		for _, member := range r.names(c.Args[0], loops) {
			require(object, member)
		}
		return true
	}
	passes := slices.ContainsFunc(c.Args, func(a ast.Expr) bool {
		return slices.Contains([]any{object["x-subject"], "doc", "body"}, any(exprName(a)))
	})
	inner := r.choose(method, receiver)
	if inner == nil || !passes || seen[method] || method == name && inner.Recv != nil { // which is a local function
		return true
	}
	within := map[string]bool{method: true}
	maps.Copy(within, seen)
	before := object["x-subject"]
	object["x-subject"] = subjectOf(inner.Type)
	defer func() { object["x-subject"] = before }()
	r.walk(inner.Body, cmpOr(receiverOf(inner), receiver), object, r.arguments(inner, c, loops), within)
	return true
}

// subjectOf names the parameter by which a function reads members.
func subjectOf(f *ast.FuncType) string {
	for _, group := range f.Params.List {
		if exprName(group.Type) == "*fields" && len(group.Names) > 0 {
			return group.Names[0].Name
		}
	}
	return "f"
}

// arguments are the texts that a call gives to parameters.
func (r *sourceReader) arguments(f *ast.FuncDecl, c *ast.CallExpr, loops map[string][]string) map[string][]string {
	given := map[string][]string{}
	at := 0
	for _, group := range f.Type.Params.List {
		for _, parameter := range group.Names {
			if at < len(c.Args) {
				given[parameter.Name] = r.names(c.Args[at], loops)
			}
			at++
		}
	}
	return given
}

func cmpOr(a, b string) string {
	if a != "" && a != "Generation" && a != "Format" {
		return a
	}
	return b
}

// choose returns the function of a name, with that receiver if there are several.
func (r *sourceReader) choose(name, receiver string) *ast.FuncDecl {
	found := r.funcs[name]
	for _, f := range found {
		if receiverOf(f) == receiver || len(found) == 1 {
			return f
		}
	}
	return nil
}

// readerKinds are the methods that read a member, with its type.
var readerKinds = map[string]string{"text": "string", "flag": "boolean", "integer": "integer", "decimal": "number",
	"oneOf": "string", "object": "object", "with": "", "take": "", "need": "string"}

// member adds one member of an object.
func (r *sourceReader) member(object apiSchema, name, kind string, c *ast.CallExpr, seen map[string]bool) {
	all := object["properties"].(apiSchema)
	s, ok := all[name].(apiSchema)
	if !ok {
		s = apiSchema{}
		all[name] = s
	}
	if kind == "" {
		if len(c.Args) > 1 && s["type"] == nil {
			r.valueKinds(c.Args[1], s)
		}
		return
	}
	s["type"] = kind
	switch exprName(c.Fun)[strings.LastIndexByte(exprName(c.Fun), '.')+1:] {
	case "need":
		require(object, name)
	case "integer", "decimal":
		r.bound(s, "minimum", c.Args[1])
		r.bound(s, "maximum", c.Args[2])
	case "oneOf":
		var allowed []string
		for _, a := range c.Args[2:] {
			allowed = append(allowed, r.names(a, nil)...)
		}
		s["enum"] = allowed
	case "object":
		if s["properties"] == nil {
			s["properties"] = apiSchema{}
		}
		if body, receiver := r.function(c.Args[1]); body != nil && !seen[exprName(c.Args[1])] {
			s["x-subject"] = subjectOf(r.signature(c.Args[1]))
			r.walk(body, receiver, s, nil, map[string]bool{exprName(c.Args[1]): true})
			delete(s, "x-subject")
		}
	}
}

// function returns the body of a function that is an argument.
func (r *sourceReader) function(e ast.Expr) (body *ast.BlockStmt, receiver string) {
	if f, ok := e.(*ast.FuncLit); ok {
		return f.Body, ""
	}
	name := exprName(e)
	if found := r.funcs[name[strings.LastIndexByte(name, '.')+1:]]; len(found) > 0 {
		return found[0].Body, receiverOf(found[0])
	}
	return nil, ""
}

// signature is the type of a function that is an argument.
func (r *sourceReader) signature(e ast.Expr) *ast.FuncType {
	if f, ok := e.(*ast.FuncLit); ok {
		return f.Type
	}
	name := exprName(e)
	return r.funcs[name[strings.LastIndexByte(name, '.')+1:]][0].Type
}

// valueKinds are the types that a function takes for a value, by what it asks of it.
func (r *sourceReader) valueKinds(e ast.Expr, s apiSchema) {
	body, _ := r.function(e)
	if body == nil {
		return
	}
	kinds := map[string]bool{}
	refused := false
	ast.Inspect(body, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := exprName(c.Fun)
		for method, kind := range map[string]string{"text": "string", "isString": "string", "flag": "boolean",
			"integer": "integer", "integerIn": "integer", "decimalIn": "number", "isArray": "array",
			"elements": "array", "isObject": "object", "fields": "object", "members": "object"} {
			if name == "v."+method {
				kinds[kind] = true
			}
		}
		refused = refused || strings.HasSuffix(name, ".unsupported")
		return true
	})
	var list []string
	for kind := range kinds {
		list = append(list, kind)
	}
	slices.Sort(list)
	switch {
	case len(list) == 1:
		s["type"] = list[0]
	case len(list) > 1:
		s["type"] = list
	case refused:
		s["description"] = "Not supported here: a request that asks for it is refused."
	}
}

func (r *sourceReader) bound(s apiSchema, name string, e ast.Expr) {
	if lit, ok := r.values[exprName(e)]; ok {
		e = lit
	}
	sign := 1.0
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.SUB {
		sign, e = -1, u.X
	}
	if lit, ok := e.(*ast.BasicLit); ok {
		v, _ := constant.Float64Val(constant.ToFloat(constant.MakeFromLiteral(lit.Value, lit.Kind, 0)))
		s[name] = sign * v
	}
}

// names are the texts that an expression stands for: a literal, a constant, a variable of a
// loop, or one of the prefixes with which fields are read.
func (r *sourceReader) names(e ast.Expr, loops map[string][]string) (list []string) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return []string{text}
		}
	case *ast.Ident:
		if of := loops[e.Name]; len(of) > 0 {
			return of
		}
		if value, ok := r.values[e.Name]; ok {
			return r.names(value, nil)
		}
	case *ast.BinaryExpr: // prefix + "json"
		for _, rest := range r.names(e.Y, loops) {
			list = append(list, "guided_"+rest)
		}
	}
	return list
}

// texts are the literals of a list, or of a variable that has one.
func (r *sourceReader) texts(e ast.Expr) (list []string) {
	if value, ok := r.values[exprName(e)]; ok {
		e = value
	}
	if c, ok := e.(*ast.CompositeLit); ok {
		for _, element := range c.Elts {
			list = append(list, r.names(element, nil)...)
		}
	}
	return list
}

// structFields adds the fields of a struct that a body is decoded into.
func (r *sourceReader) structFields(s *ast.StructType, object apiSchema) {
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 {
			if inner := r.types[exprName(f.Type)]; inner != nil {
				r.structFields(inner, object)
			}
			continue
		}
		if f.Tag == nil {
			continue
		}
		_, rest, _ := strings.Cut(f.Tag.Value, `json:"`)
		name, _, _ := strings.Cut(rest, `"`)
		name, _, _ = strings.Cut(name, ",")
		if name != "" && name != "-" {
			object["properties"].(apiSchema)[name] = r.typeOf(f.Type)
		}
	}
}

func (r *sourceReader) typeOf(e ast.Expr) apiSchema {
	switch e := e.(type) {
	case *ast.StarExpr:
		return r.typeOf(e.X)
	case *ast.ArrayType:
		return apiSchema{"type": "array", "items": r.typeOf(e.Elt)}
	case *ast.MapType:
		return apiSchema{"type": "object", "additionalProperties": r.typeOf(e.Value)}
	case *ast.StructType:
		object := newObject()
		r.structFields(e, object)
		return object
	}
	switch name := exprName(e); name {
	case "string":
		return apiSchema{"type": "string"}
	case "bool":
		return apiSchema{"type": "boolean"}
	case "int", "int64":
		return apiSchema{"type": "integer"}
	default:
		if inner := r.types[name]; inner != nil {
			object := newObject()
			r.structFields(inner, object)
			return object
		}
	}
	return apiSchema{} // any JSON
}

// require lists a member among those that must be there.
func require(object apiSchema, name string) {
	list, _ := object["required"].([]string)
	if !slices.Contains(list, name) {
		object["required"] = append(list, name)
	}
}

// exprName is an expression's text, if it is a name.
func exprName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprName(e.X) + "." + e.Sel.Name
	case *ast.StarExpr:
		return "*" + exprName(e.X)
	}
	return ""
}
