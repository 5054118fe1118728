package cost

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
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

// lineMax bounds a line of a log.
const lineMax = 1 << 20

// ReadLog returns the passes in the log of a worker, whose other lines are passed over. The
// time from one pass to the next belongs to the later one: the engine planned it then.
func ReadLog(log io.Reader) (samples []Sample, err error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, lineMax)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(passMessage)) {
			continue
		}
		var line passLine
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Message != passMessage || line.Rows < 1 {
			continue
		}
		if took := line.Took + line.Gap; took > 0 {
			samples = append(samples, Sample{Pass: line.Pass, Took: took})
		}
	}
	return samples, lines.Err()
}
