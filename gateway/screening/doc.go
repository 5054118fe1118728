// Package screening applies a tenant's safety policy to one request: it judges the
// prompt before anything is computed for it, and returns what the answer must pass.
// What finds things is in gateway/safety; this decides what follows for the request.
//
//	parts.go      the texts of a prompt, and where they come from
//	screening.go  judging them: block, redact, flag; moderators outside
//	prompt.go     the prompts of each kind of request
//	output.go     what the answer must pass
package screening
