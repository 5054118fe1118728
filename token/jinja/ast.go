package jinja

// An expr is a node that has a value.
type expr interface {
	eval(in *interp, sc *scope) (Value, error)
}

// A stmt is a node that writes, assigns or steers.
type stmt interface {
	exec(in *interp, sc *scope) (flow, error)
}

// A flow says how a statement ended.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

type constExpr struct{ value Value }

// A nameExpr reads a variable; id indexes Template.names.
type nameExpr struct{ id int }

type tupleExpr struct{ items []expr }

type listExpr struct{ items []expr }

type dictExpr struct{ keys, values []expr }

type attrExpr struct {
	of   expr
	name string
}

type itemExpr struct{ of, key expr }

// A sliceExpr is of[start:stop:step]; absent parts are nil.
type sliceExpr struct{ of, start, stop, step expr }

// callSyntax is what stands between the parentheses of a call.
type callSyntax struct {
	pos       []expr
	names     []string
	named     []expr
	dynPos    expr
	dynNamed  expr
	hasCaller bool
}

type callExpr struct {
	fn   expr
	args callSyntax
}

// A filterExpr has a nil fn if no such filter exists and the filter stands
// under a condition, where jinja2 complains only when it is reached.
type filterExpr struct {
	of   expr
	name string
	fn   filterFunc
	args callSyntax
}

type testExpr struct {
	of   expr
	name string
	fn   testFunc
	args callSyntax
}

type notExpr struct{ of expr }

type signExpr struct {
	of     expr
	negate bool
}

// An arithExpr is a chain of operators of one precedence, kept flat so that a
// long chain costs no stack.
type arithExpr struct {
	first expr
	ops   []byte
	rest  []expr
}

type concatExpr struct{ parts []expr }

type compareExpr struct {
	first expr
	ops   []compareOp
	rest  []expr
}

// A logicExpr is a flat chain of and, or of or.
type logicExpr struct {
	parts []expr
	isOr  bool
}

// A condExpr is "then if test else otherwise"; otherwise may be nil.
type condExpr struct {
	test, then, otherwise expr
	line                  int
}

type compareOp uint8

const (
	opEq compareOp = iota
	opNe
	opLt
	opLe
	opGt
	opGe
	opIn
	opNotIn
)

type dataStmt struct{ text string }

type outputStmt struct {
	of   expr
	line int
}

type ifBranch struct {
	test expr
	body []stmt
	line int
}

// An ifStmt's last branch has a nil test if there is an else.
type ifStmt struct{ branches []ifBranch }

type forStmt struct {
	target    target
	iter      expr
	filter    expr
	body      []stmt
	otherwise []stmt
	recursive bool
	usesLoop  bool
	loopID    int
	line      int
}

type setStmt struct {
	target target
	value  expr
	line   int
}

// A captureStmt renders its body, runs it through filters and either assigns
// the text or, without a target, writes it.
type captureStmt struct {
	target  *target
	filters expr
	textID  int
	body    []stmt
	line    int
}

// macroSyntax is a macro or the body of a call block.
type macroSyntax struct {
	name     string
	params   []int
	names    []string
	defaults []expr
	body     []stmt
	callerID int
	kwargsID int
	varargID int
	line     int
}

type macroStmt struct {
	id     int
	syntax *macroSyntax
}

type callStmt struct {
	call *callExpr
	body *macroSyntax
	line int
}

type withStmt struct {
	targets []target
	values  []expr
	body    []stmt
	line    int
}

// A scopeStmt runs its body in a scope of its own: generation and autoescape
// tags. With isBlock it sees only top-level names.
type scopeStmt struct {
	body    []stmt
	isBlock bool
}

type flowStmt struct{ flow flow }

// A loaderStmt is an include, import or extends, for which there is nothing
// to load from.
type loaderStmt struct {
	tag  string
	line int
}

// A target is what an assignment assigns to: a name, an attribute of a
// namespace, or a tuple of targets.
type target struct {
	id    int
	attr  string
	items []target
	kind  targetKind
}

type targetKind uint8

const (
	targetName targetKind = iota
	targetAttr
	targetTuple
)
