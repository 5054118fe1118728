// Package native answers the routes that vLLM and llama.cpp have beside OpenAI's API, in the
// shapes of the two: ranking, scores, tokens, prompts as the template renders them, and gaps
// to fill. What needs a model is computed as on all other routes.
package native
