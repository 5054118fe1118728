package anthropic

import "fmt"

// TooLong returns the message for a prompt that does not fit the context, or, if outputTokens is not 0, does not fit
// with the answer. Programs read the numbers from these words and try again with less.
func TooLong(promptTokens, outputTokens, contextTokens int) string {
	if outputTokens == 0 {
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", promptTokens, contextTokens)
	}
	return fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or "+
		"`max_tokens` and try again", promptTokens, outputTokens, contextTokens)
}
