package openai

import (
	"bytes"
	"encoding/json"

	"parley"
)

// Bounds of batches.
const (
	customIDBytesMax    = 512
	outputSecondsMin    = 3600
	outputSecondsMax    = 30 * 24 * 3600
	completionWindowDay = "24h"
)

// BatchEndpoints are where the requests of a batch can go.
var BatchEndpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}

// A BatchRequest is the body of POST /v1/batches.
type BatchRequest struct {
	InputFileID string
	// Endpoint is one of [BatchEndpoints].
	Endpoint string
	Metadata map[string]string
	// OutputSeconds is how long the results are kept, 0 for the default.
	OutputSeconds int
}

// ParseBatch reads the body that creates a batch. An error is always a
// [parley.Error] that names the field at fault.
func ParseBatch(body []byte) (*BatchRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &BatchRequest{}
	for _, name := range []string{"input_file_id", "endpoint", "completion_window"} {
		if _, ok := f.take(name); !ok {
			f.fail(f.missing(name))
		}
	}
	window := ""
	f.text("input_file_id", &r.InputFileID)
	f.oneOf("endpoint", &r.Endpoint, BatchEndpoints...)
	f.oneOf("completion_window", &window, completionWindowDay)
	if _, ok := f.take("metadata"); ok {
		r.Metadata = f.metadata("metadata")
	}
	f.object("output_expires_after", func(after *fields) { r.OutputSeconds = readExpiry(after) })
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

// readExpiry takes an anchor, of which there is one, and seconds after it.
func readExpiry(f *fields) (seconds int) {
	anchor := ""
	f.oneOf("anchor", &anchor, "created_at")
	f.integer("seconds", outputSecondsMin, outputSecondsMax, &seconds)
	return seconds
}

// A BatchLine is one request in the input file of a batch.
type BatchLine struct {
	CustomID string
	URL      string
	// Body is the request's own body, a JSON object.
	Body []byte
}

// ParseBatchLine reads one line of an input file. An error is always a
// [parley.Error] that names the member at fault.
func ParseBatchLine(line []byte) (*BatchLine, error) {
	doc, err := document(line)
	if err != nil {
		return nil, withCode("invalid_json_line",
			parley.Invalid("", "This line is not parseable as valid JSON: %s", err.Error()))
	}
	f := doc.fields()
	l := &BatchLine{}
	for _, name := range []string{"custom_id", "method", "url", "body"} {
		if _, ok := f.take(name); !ok {
			f.fail(f.missing(name))
		}
	}
	f.with("custom_id", func(v value) error {
		l.CustomID, err = v.text()
		if err == nil && (l.CustomID == "" || len(l.CustomID) > customIDBytesMax) {
			return v.invalid("invalid_value", "expected 1 to %d bytes, but got %d.", customIDBytesMax, len(l.CustomID))
		}
		return err
	})
	method := ""
	f.oneOf("method", &method, "POST")
	f.text("url", &l.URL)
	f.object("body", func(body *fields) {
		stream := false
		body.flag("stream", &stream)
		if v, ok := body.take("stream"); ok && stream {
			body.fail(v.invalid("invalid_value", "requests of a batch cannot be streamed."))
		}
		l.Body = bytes.Clone(body.at.raw)
	})
	if f.err != nil {
		return nil, f.err
	}
	return l, nil
}

// A Batch is a list of requests that are answered when the server is otherwise idle. The
// members about what has not happened are left out.
type Batch struct {
	ID               string             `json:"id"`
	Object           string             `json:"object"`
	Endpoint         string             `json:"endpoint"`
	Errors           *BatchErrors       `json:"errors,omitempty"`
	InputFileID      string             `json:"input_file_id"`
	CompletionWindow string             `json:"completion_window"`
	Status           BatchStatus        `json:"status"`
	OutputFileID     string             `json:"output_file_id,omitempty"`
	ErrorFileID      string             `json:"error_file_id,omitempty"`
	CreatedAt        int64              `json:"created_at"`
	InProgressAt     int64              `json:"in_progress_at,omitempty"`
	ExpiresAt        int64              `json:"expires_at"`
	FinalizingAt     int64              `json:"finalizing_at,omitempty"`
	CompletedAt      int64              `json:"completed_at,omitempty"`
	FailedAt         int64              `json:"failed_at,omitempty"`
	ExpiredAt        int64              `json:"expired_at,omitempty"`
	CancellingAt     int64              `json:"cancelling_at,omitempty"`
	CancelledAt      int64              `json:"cancelled_at,omitempty"`
	RequestCounts    BatchRequestCounts `json:"request_counts"`
	Metadata         map[string]string  `json:"metadata,omitempty"`
}

// A BatchStatus says how far a batch is.
type BatchStatus string

// The statuses, in the order in which they come.
const (
	BatchValidating BatchStatus = "validating"
	BatchFailed     BatchStatus = "failed"
	BatchInProgress BatchStatus = "in_progress"
	BatchCancelling BatchStatus = "cancelling"
	BatchFinalizing BatchStatus = "finalizing"
	BatchCompleted  BatchStatus = "completed"
	BatchExpired    BatchStatus = "expired"
	BatchCancelled  BatchStatus = "cancelled"
)

// Over reports whether nothing more happens to the batch.
func (s BatchStatus) Over() bool {
	return s == BatchFailed || s == BatchCompleted || s == BatchExpired || s == BatchCancelled
}

// BatchRequestCounts counts the requests of a batch by what came of them.
type BatchRequestCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// BatchErrors are why an input file was refused.
type BatchErrors struct {
	Object string       `json:"object"`
	Data   []BatchError `json:"data"`
}

// A BatchError is one of them. Line counts from 1; it is left out where the
// whole file is at fault.
type BatchError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Line    int    `json:"line,omitempty"`
}

// BatchErrorOf describes what is wrong with a line of an input file.
func BatchErrorOf(err error, line int) BatchError {
	detail := Describe(err, "").Body.Error
	e := BatchError{Code: "invalid_request", Message: detail.Message, Line: line}
	if detail.Code != nil {
		e.Code = *detail.Code
	}
	if detail.Param != nil {
		e.Param = *detail.Param
	}
	return e
}

// A BatchResult is one line of an output or error file.
type BatchResult struct {
	ID       string         `json:"id"`
	CustomID string         `json:"custom_id"`
	Response *BatchResponse `json:"response"`
	Error    *BatchError    `json:"error"`
}

// A BatchResponse is what a request of a batch was answered.
type BatchResponse struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
	// Final answers are the same however often one asks, such as that a budget is
	// spent.
	Final bool `json:"-"`
}

// A BatchList is a page of batches, newest first.
type BatchList struct {
	Object  string  `json:"object"`
	Data    []Batch `json:"data"`
	FirstID string  `json:"first_id,omitempty"`
	LastID  string  `json:"last_id,omitempty"`
	HasMore bool    `json:"has_more"`
}
