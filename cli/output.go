package cli

import (
	"encoding/json"
	"io"
)

// OrDash returns a dash for an empty cell of a table.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// PrintJSON writes v indented, as all commands do for --json.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
