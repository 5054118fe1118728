package openai

import (
	"net/url"
	"strconv"

	"parley"
)

// FilePurpose is what the files are for that batches read, and OutputPurpose what
// those are for that batches write.
const (
	FilePurpose   = "batch"
	OutputPurpose = "batch_output"
)

// FilePurposes are what files can be uploaded for. Only batches read them; what is
// uploaded for another reason is kept, listed and given back.
var FilePurposes = []string{FilePurpose, "user_data", "assistants", "fine-tune", "vision"}

// A File is what is said of a stored file.
type File struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at,omitempty"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

// A FileList is a page of files.
type FileList struct {
	Object  string `json:"object"`
	Data    []File `json:"data"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	HasMore bool   `json:"has_more"`
}

// A Deletion says that an object is gone.
type Deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// A Page is the part of a list that a client asks for.
type Page struct {
	// After is the id behind which the page begins, empty for the first.
	After string
	// Limit is at least 1.
	Limit int
	// Ascending lists the oldest first.
	Ascending bool
	// Purpose is what listed files are for; empty lists all.
	Purpose string
}

// ParsePage reads the query of a list whose pages have the given length unless
// the client wants another, of at most most.
func ParsePage(query url.Values, usual, most int) (Page, error) {
	p := Page{After: query.Get("after"), Limit: usual, Purpose: query.Get("purpose")}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return Page{}, withCode("invalid_value", parley.Invalid("limit",
				"Invalid 'limit': '%s'. Expected an integer from 1 to %d.", shorten(text), most))
		}
		p.Limit = n
	}
	switch order := query.Get("order"); order {
	case "", "desc":
	case "asc":
		p.Ascending = true
	default:
		return Page{}, withCode("invalid_value",
			parley.Invalid("order", "Invalid 'order': '%s'. Supported values are: 'asc', 'desc'.", shorten(order)))
	}
	return p, nil
}

// ObjectNotFound is the error for an id that nothing has, such as of a file.
func ObjectNotFound(kind, id string) error {
	return &parley.Error{Code: parley.NotFound, Param: "id", Message: "No such " + kind + " object: " + shorten(id)}
}

// ParseUploadExpiry reads the fields of an upload that say how long the file is
// kept; 0 means the default.
func ParseUploadExpiry(anchor, seconds string) (int, error) {
	switch {
	case anchor == "" && seconds == "":
		return 0, nil
	case anchor != "created_at":
		return 0, withCode("invalid_value", parley.Invalid("expires_after[anchor]",
			"Invalid 'expires_after[anchor]': '%s'. Supported values are: 'created_at'.", shorten(anchor)))
	}
	n, err := strconv.Atoi(seconds)
	if err != nil || n < outputSecondsMin || n > outputSecondsMax {
		return 0, withCode("invalid_value", parley.Invalid("expires_after[seconds]",
			"Invalid 'expires_after[seconds]': '%s'. Expected an integer from %d to %d.",
			shorten(seconds), outputSecondsMin, outputSecondsMax))
	}
	return n, nil
}
