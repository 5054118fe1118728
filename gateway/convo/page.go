package convo

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"parley"
)

// A Page asks for a part of a list.
type Page struct {
	// After asks for what follows this cursor, Before for what comes before it,
	// both in the order of the list. At most one is given.
	After, Before string
	// Limit is how many; 0 means 20, at most 100.
	Limit int
	// Ascending lists oldest first; otherwise newest first.
	Ascending bool
}

// A List is a part of a list.
type List[T any] struct {
	Items []T
	// First and Last are the cursors of the first and last of Items; empty if
	// there are none.
	First, Last string
	// More says that there is more in the direction that was asked for.
	More bool
}

const (
	pageDefault = 20
	pageMax     = 100
)

// A scan is how a page is read: rows beyond a cursor in one direction, one
// more than asked for, and turned round at the end if the page lies before the
// cursor.
type scan struct {
	cursor  string
	limit   int
	upward  bool // towards newer rows
	turn    bool
	compare string // "<" or ">": how rows wanted relate to the cursor
	order   string // "ASC" or "DESC"
}

// scan checks the page and says how to read it.
func (p Page) scan() (scan, error) {
	if p.After != "" && p.Before != "" {
		return scan{}, parley.Invalid("after", "Give either after or before, not both.")
	}
	if p.Limit < 0 || p.Limit > pageMax {
		return scan{}, parley.Invalid("limit", "limit must be 1 to %d, not %d.", pageMax, p.Limit)
	}
	if err := checkNames("after", p.After, "before", p.Before); err != nil {
		return scan{}, err
	}
	s := scan{
		cursor:  p.After + p.Before,
		limit:   p.Limit,
		turn:    p.Before != "",
		compare: "<",
		order:   "DESC",
	}
	if s.limit == 0 {
		s.limit = pageDefault
	}
	if s.upward = p.Ascending != s.turn; s.upward {
		s.compare, s.order = ">", "ASC"
	}
	return s, nil
}

// listOf makes a List of the rows that a scan read.
func listOf[T any](s scan, rows []T, cursor func(*T) string) List[T] {
	list := List[T]{Items: rows, More: len(rows) > s.limit}
	if list.More {
		list.Items = rows[:s.limit]
	}
	if s.turn {
		slices.Reverse(list.Items)
	}
	if n := len(list.Items); n > 0 {
		list.First, list.Last = cursor(&list.Items[0]), cursor(&list.Items[n-1])
	}
	return list
}

// A pageCursor is where a row stands in a list that is ordered by a number and then
// by a name.
type pageCursor struct {
	number int64
	name   string
}

// encode returns the place as a cursor, which callers do not look into.
func (p pageCursor) encode() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.number, 36) + "." + p.name))
}

// parsePageCursor reads what encode wrote.
func parsePageCursor(cursor string) (pageCursor, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, name, found := strings.Cut(string(text), ".")
	n, bad := strconv.ParseInt(number, 36, 64)
	if err != nil || bad != nil || !found || checkName("after", name) != nil {
		return pageCursor{}, parley.Invalid("after",
			"This is not a cursor of this list: use one that an earlier answer gave.")
	}
	return pageCursor{n, name}, nil
}
