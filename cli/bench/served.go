package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"parley/sim/cost"
)

// A passLine is what a worker logs about a pass, besides the time and level of the line.
type passLine struct {
	Message string `json:"msg"`
	cost.Pass
	Took time.Duration `json:"took_ns"`
	Gap  time.Duration `json:"gap_ns"`
}

// passMessage is the message of such a line.
const passMessage = "pass computed"

// lineMax bounds a line of a log.
const lineMax = 1 << 20

// servedPasses reads the passes in the logs of workers. The time from one pass to the
// next belongs to the later one: the engine planned it then.
func servedPasses(paths []string) (samples []cost.Sample, err error) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		found, err := readPasses(file)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no pass is in it: start the worker with --log-level debug --log-format json")
		}
		if file.Close(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		samples = append(samples, found...)
	}
	return samples, nil
}

// readPasses returns the passes in a log, whose other lines are passed over.
func readPasses(log io.Reader) (samples []cost.Sample, err error) {
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
			samples = append(samples, cost.Sample{Pass: line.Pass, Took: took})
		}
	}
	return samples, lines.Err()
}
