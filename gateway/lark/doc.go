// Package lark turns a grammar in the notation of Lark into one regular expression, which is how an answer is held to
// it. Rules that do not refer to themselves are written out, and so are those that do so at their beginning or end
// alone: these are repetitions. Any other recursion is followed a few levels deep, as far as the expression stays
// small. So a text that the expression matches is always one of the grammar, though not every text of a recursive
// grammar is matched.
//
// Terminals are not matched greedily first, as Lark's own lexer does: a text belongs to the grammar if it can be cut
// into its terminals in any way. Templates, and directives other than %import of common terminals and %ignore, are
// refused by name.
package lark
