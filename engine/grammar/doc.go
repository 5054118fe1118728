// Package grammar constrains an answer to a [parley.Grammar]: it says, before each
// token is chosen, which tokens keep the text inside the grammar. It only
// decides: no clock, no goroutine, no file. Work is bounded by counting steps.
//
// # From a tree to an automaton
//
// [Compile] turns the tree into rules. A rule is a deterministic automaton over
// bytes, in which an arc either takes a byte or calls another rule and continues
// after it. What is regular stays in one rule: objects, arrays, literals and
// choices between them share their common beginnings, so `{"type":"a"…}` and
// `{"type":"b"…}` are one path until they differ. Only what recurs ($ref), what
// is counted and a few shared rules (string, number, any value) are called.
//
// A place in the grammar is therefore a node and a stack of nodes to return
// to; because two calls can begin alike, a [Matcher] holds a small set of such
// places. A call in last position leaves nothing on the stack.
//
// Counted repetition is a rule with a counter on the stack instead of copies of
// its body: a bound of a million costs what a bound of two costs.
//
// Strings with patterns, lengths and formats, and numbers with bounds and
// multiples, are built as automata of their own and intersected, so that they
// hold together exactly.
//
// # Always a way to the end
//
// Every node knows how many frames a completion needs at least. A step that
// would leave less room than that under the bound of the stack is not taken, so
// recursion ends by closing what is open, and no text leads to a place from
// which the answer cannot be completed. Where a vocabulary has no token for
// some single byte, completion is planned without that byte.
//
// # From bytes to tokens
//
// A [Vocabulary] is a trie of the bytes of all tokens, built once. Walking it
// with the automaton gives the mask of a place: a bit for each token. A subtree
// whose characters all lead back to the same node, such as the text inside a
// string, is taken as a whole.
//
// Most of a mask does not depend on the stack. So it is computed in two parts:
// what the node alone decides, together with the trie nodes at which the rule
// could be left, kept for the node; and the short walks from there on, with
// the rest of the stack. Both are kept in a bounded cache, and for the inside
// of a plain string the first part is computed with the vocabulary. A counter
// that is further from its bounds than a token is long counts as any other.
//
// # Every keyword is held, or refused, or named
//
// In strict mode an answer always satisfies the schema, or the schema is refused. Where
// a keyword is about the value as a whole, it is turned into alternatives that the rest
// of the schema is taken together with: a branch of oneOf with the negation of those that
// it could overlap, if with then, its negation with else. A negation is a list of schemas
// again, one for each keyword that could be broken. It may say less than it could, never
// more, so that what follows from it holds. Alternatives that contradict the rest are
// dropped before they are written, because they multiply.
//
// A schema that is not strict is held in the same way if that succeeds. If not, what
// cannot be held is left out, and [Program.Unenforced] names it. Keywords that JSON Schema
// does not know are annotations and say nothing.
//
// # Less than the schema allows
//
// Some values that satisfy a schema cannot be written. Properties come in the schema's
// order, and so do the elements of arrays without repetition, which must come from a list.
// Properties that are not named are written only where additionalProperties or a pattern
// asks for them, or nothing is named. Objects hold no keys with escapes beside named ones.
// What an array must contain comes first. Numbers have at most 18 digits before and 17
// after the point, unless a bound has more, and an exponent of two digits, so that every
// reader can hold them. A length beside a pattern or format is held by counting in the
// automaton; a great one may be cut. After a comma and a colon stands at most
// one space, and no other white space between the parts of a value: it reads
// well, costs the fewest tokens, and leaves a model that is not sure no room to
// fill with blanks.
//
// # How an engine uses it
//
//	program, err := grammar.Compile(request.Grammar) // where the request comes in
//	matcher := masker.Start(program)                 // on the goroutine of the loop
//	matcher.Mask().Apply(scores, logits)             // before the sampler chooses
//	matcher.Accept(token)                            // after
//	if matcher.Final() { … }                         // the answer is complete
//
// A choice of the same request starts with [Matcher.Fork]. A guess that
// [Matcher.Allowed] refuses is not worth a row, and [Matcher.Forced] gives
// guesses for free where the grammar leaves one way.
package grammar
