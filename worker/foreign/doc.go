// Package foreign speaks with engines of other makes: vLLM, SGLang, llama.cpp, Ollama,
// and servers that have OpenAI's API alone. A dialect turns a request into a body, and
// the messages of the answer into deltas. It does no I/O of its own.
package foreign
