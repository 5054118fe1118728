package traffic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Row is one request of a recorded trace.
type Row struct {
	// At is the time since the trace's first row.
	At                        time.Duration
	InputTokens, OutputTokens int
	// Blocks name the content of the prompt, [MooncakeBlockTokens] at a time, the
	// last one maybe less. Rows with the same first names have the same first
	// tokens. Empty where the trace does not tell.
	Blocks []uint64
}

// A Format is a way of writing traces.
type Format string

const (
	// Mooncake is a line of JSON for each request, with a timestamp in
	// milliseconds and the hash ids of the prompt's blocks.
	Mooncake Format = "mooncake"
	// Azure is CSV with the columns TIMESTAMP, ContextTokens, GeneratedTokens.
	Azure Format = "azure"
	// BurstGPT is CSV with the columns Timestamp, Request tokens and Response tokens
	// among others, found by their names; times are seconds.
	BurstGPT Format = "burstgpt"
)

// Formats lists the formats that can be read.
func Formats() []Format { return []Format{Mooncake, Azure, BurstGPT} }

// MooncakeBlockTokens is the length of the blocks that Mooncake traces name.
const MooncakeBlockTokens = 512

// The bounds of a trace: beyond them it is broken or hostile.
const (
	rowsMax    = 1 << 22
	millisMax  = 1e12
	blockIDMax = 1<<(64-keyBits) - 1
)

// ReadTrace reads at most limit rows (0 means all) from the lines of a trace,
// in order of time. An error names the line.
func ReadTrace(format Format, lines iter.Seq2[[]byte, error], limit int) ([]Row, error) {
	var parse func(line []byte) (Row, bool, error)
	switch format {
	case Mooncake:
		parse = parseMooncake
	case Azure:
		parse = new(azureReader).parse
	case BurstGPT:
		parse = new(burstReader).parse
	default:
		return nil, fmt.Errorf("trace format %q: expected one of %q", format, Formats())
	}
	rows, err := readRows(lines, parse, limit)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("the trace has no rows")
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.At, b.At) })
	start := rows[0].At
	for i := range rows {
		rows[i].At -= start
	}
	return rows, nil
}

func readRows[T any](lines iter.Seq2[[]byte, error], parse func([]byte) (T, bool, error),
	limit int) (rows []T, err error) {
	number := 0
	for line, err := range lines {
		number++
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		row, ok, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if !ok {
			continue
		}
		if rows = append(rows, row); len(rows) == limit {
			return rows, nil
		}
		if len(rows) > rowsMax {
			return nil, fmt.Errorf("the trace has more than %d rows: cut it, or set a limit", rowsMax)
		}
	}
	return rows, nil
}

func parseMooncake(line []byte) (Row, bool, error) {
	var fields struct {
		Timestamp *float64 `json:"timestamp"`
		Input     *int     `json:"input_length"`
		Output    *int     `json:"output_length"`
		Blocks    []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return Row{}, false, fmt.Errorf("no line of a Mooncake trace: %w", err)
	}
	if fields.Timestamp == nil || fields.Input == nil || fields.Output == nil {
		return Row{}, false, errors.New("timestamp, input_length or output_length is missing")
	}
	if t := *fields.Timestamp; !(t >= 0 && t <= millisMax) {
		return Row{}, false, fmt.Errorf("timestamp %g: expected milliseconds from 0 to %g", t, millisMax)
	}
	for _, id := range fields.Blocks {
		if id > blockIDMax {
			return Row{}, false, fmt.Errorf("hash id %d: expected at most %d", id, uint64(blockIDMax))
		}
	}
	at := time.Duration(math.Round(*fields.Timestamp * float64(time.Millisecond)))
	row := Row{At: at, InputTokens: *fields.Input, OutputTokens: *fields.Output, Blocks: fields.Blocks}
	return row, true, row.check()
}

// check refuses lengths that no server has seen. An empty answer is one token
// in the replay, as no request can ask for none.
func (r *Row) check() error {
	return errors.Join(within("input tokens", r.InputTokens, 1, LengthMax),
		within("output tokens", r.OutputTokens, 0, LengthMax))
}

// An azureReader knows whether it has seen the header, and the first time.
type azureReader struct {
	started bool
	first   time.Time
}

var azureColumns = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}

func (a *azureReader) parse(line []byte) (Row, bool, error) {
	fields := strings.Split(string(line), ",")
	if !a.started {
		a.started = true
		if slices.Equal(fields, azureColumns) {
			return Row{}, false, nil
		}
		return Row{}, false, fmt.Errorf("expected the header %s", strings.Join(azureColumns, ","))
	}
	if len(fields) != len(azureColumns) {
		return Row{}, false, fmt.Errorf("%d fields: expected %d", len(fields), len(azureColumns))
	}
	at, err := parseAzureTime(fields[0])
	if err != nil {
		return Row{}, false, err
	}
	if a.first.IsZero() {
		a.first = at
	}
	since := at.Sub(a.first)
	if since.Abs() > millisMax*time.Millisecond {
		return Row{}, false, fmt.Errorf("time %q is years away from the first one", fields[0])
	}
	input, err1 := strconv.Atoi(fields[1])
	output, err2 := strconv.Atoi(fields[2])
	if err := errors.Join(err1, err2); err != nil {
		return Row{}, false, fmt.Errorf("no token count: %w", err)
	}
	row := Row{At: since, InputTokens: input, OutputTokens: output}
	return row, true, row.check()
}

// parseAzureTime reads the time of the 2023 traces, which have no zone, and of
// the 2024 ones, which have.
func parseAzureTime(text string) (time.Time, error) {
	at, err := time.Parse("2006-01-02 15:04:05", text) // takes fractions, too
	if err != nil {
		at, err = time.Parse("2006-01-02 15:04:05Z07:00", text)
	}
	if err != nil {
		return at, fmt.Errorf("time %q: expected one such as 2023-11-16 18:15:46.6805900", text)
	}
	return at, nil
}
