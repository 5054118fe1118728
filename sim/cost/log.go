package cost

import (
	"bytes"
	"encoding/json"
	"time"
)

// A passLine is what a worker logs about a pass, besides the time and level of the line.
type passLine struct {
	Message string `json:"msg"`
	Pass
	Took time.Duration `json:"took_ns"`
	Gap  time.Duration `json:"gap_ns"`
}

// passMessage is the message of such a line.
const passMessage = "pass computed"

// ReadLog returns the passes in the log of a worker, whose other lines are passed over. The
// time from one pass to the next belongs to the later one: the engine planned it then.
func ReadLog(log []byte) (samples []Sample) {
	for text := range bytes.Lines(log) {
		if !bytes.Contains(text, []byte(passMessage)) {
			continue
		}
		var line passLine
		if json.Unmarshal(text, &line) != nil || line.Message != passMessage || line.Rows < 1 {
			continue
		}
		if took := line.Took + line.Gap; took > 0 {
			samples = append(samples, Sample{Pass: line.Pass, Took: took})
		}
	}
	return samples
}
