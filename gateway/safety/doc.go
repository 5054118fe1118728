// Package safety screens what goes into a model and what comes out of it.
//
// Three kinds of judges look at a text. Rules find what has a form: secrets,
// card numbers, bank accounts, addresses of mail and network. A tagger finds
// what has a context: names, places, postal addresses. A classifier weighs
// the rest: harm, hate, violence, attempts to take a model over. The last two
// were trained by us (tools/safetytrain, make train-safety) and are part of
// the binary; nothing is downloaded and nothing leaves the machine.
//
// A [Screen] joins the judges. What follows from a finding is not for them to
// say: a [Policy] names an action for each category, by tenant and by model.
//
// The classifier is linear in hashed features of words, so that the score of
// a stretch of text is a sum over its words. That is what makes screening a
// stream cheap: the [Stream] keeps the sums of a short window and never reads
// a word twice.
package safety
