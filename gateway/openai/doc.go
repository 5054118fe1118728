// Package openai holds the shapes that clients of the OpenAI HTTP interface
// speak: requests as bytes, answers, stream chunks and errors. It is pure: it
// opens nothing, runs nothing and knows no model.
//
// A request is read in two steps. [ParseChat] and [ParseCompletion] turn bytes
// into a typed request and refuse whatever no model could accept. What depends
// on the model, such as the size of its vocabulary, is checked later by the
// caller with [Generation.CheckVocab].
//
// Bodies are hostile until shown otherwise, so the bytes are checked once as a
// whole (UTF-8, nesting, syntax) and then read in place through [value]: no
// tree of the document is ever built, and every complaint can name the exact
// path of the field at fault, such as messages[2].content[0].text.
//
// A failure of any kind becomes a status, headers and a body in one place,
// [Describe]; the table behind it is the only one from error codes to HTTP.
package openai
