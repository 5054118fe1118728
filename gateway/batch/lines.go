package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"parley"
	"parley/gateway/openai"
)

// errorsMax is how many faults of an input file are told of.
const errorsMax = 100

// errLineTooLong is why reading lines ended.
var errLineTooLong = errors.New("a line is too long")

// eachLine calls take with every line of r and its number, from 1, without its
// end. Blank lines count but are left out. The slice is valid until the next
// call. A line of more than most bytes ends it, before it is stored.
func eachLine(r io.Reader, most int, take func(number int, line []byte) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for number := 1; ; {
		piece, err := lines.ReadSlice('\n')
		if len(long)+len(piece) > most+1 {
			return fmt.Errorf("line %d: %w", number, errLineTooLong)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, piece...)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		line := piece
		if len(long) > 0 {
			line = append(long, piece...)
			long = long[:0]
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := take(number, line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
		number++
	}
}

// validate reads an input file as a whole. It returns how many requests it has,
// or what is wrong with it. The error is that of reading.
func validate(r io.Reader, endpoint string, limits *Limits) (total int, faults []openai.BatchError, err error) {
	seen := map[string]bool{}
	enough := errors.New("enough")
	fault := func(f openai.BatchError) error {
		if faults = append(faults, f); len(faults) == errorsMax {
			return enough
		}
		return nil
	}
	err = eachLine(r, limits.LineBytes, func(number int, raw []byte) error {
		line, err := openai.ParseBatchLine(raw)
		switch {
		case err != nil:
			return fault(openai.BatchErrorOf(err, number))
		case line.URL != endpoint:
			return fault(openai.BatchError{Code: "mismatched_endpoint", Param: "url", Line: number,
				Message: fmt.Sprintf("The url '%.64s' is not the endpoint of the batch, '%s'.", line.URL, endpoint)})
		case seen[line.CustomID]:
			return fault(openai.BatchError{Code: "duplicate_custom_id", Param: "custom_id", Line: number,
				Message: fmt.Sprintf("The custom_id '%.64s' is used twice. Each line needs its own.", line.CustomID)})
		case total == limits.Lines:
			faults = append(faults, openai.BatchError{Code: "too_many_tasks", Line: number,
				Message: fmt.Sprintf("The file has more than %d requests.", limits.Lines)})
			return enough
		}
		seen[line.CustomID] = true
		total++
		return nil
	})
	switch {
	case errors.Is(err, errLineTooLong):
		faults, err = append(faults, openai.BatchError{Code: "line_too_long",
			Message: fmt.Sprintf("%v: more than %d bytes.", err, limits.LineBytes)}), nil
	case errors.Is(err, enough):
		err = nil
	}
	if err == nil && total == 0 && len(faults) == 0 {
		faults = []openai.BatchError{{Code: "empty_file",
			Message: "The input file is empty. Each line is one request."}}
	}
	return total, slices.Clip(faults), err
}

// expiredCode marks the results of requests for which there was no time.
const expiredCode = "batch_expired"

// expired is the result of a request for which there was no time.
func expired(customID string) openai.BatchResult {
	return openai.BatchResult{ID: newID("batch_req_"), CustomID: customID, Error: &openai.BatchError{
		Code: expiredCode, Message: "This request could not be executed before the completion window expired."}}
}

// failed is the result of a request that could not be made at all.
func failed(customID string, err error) openai.BatchResult {
	return openai.BatchResult{ID: newID("batch_req_"), CustomID: customID, Error: &openai.BatchError{
		Code: string(parley.CodeOf(err)), Message: "The request could not be made."}}
}
