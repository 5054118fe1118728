package history

import (
	"net/url"
	"strconv"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
)

// pageMost is how much a list shows at once at most.
const pageMost = 100

// ParsePage reads the query of a list.
func ParsePage(query url.Values) (page convo.Page, err error) {
	page = convo.Page{After: query.Get("after"), Before: query.Get("before")}
	switch order := query.Get("order"); order {
	case "asc":
		page.Ascending = true
	case "", "desc":
	default:
		return page, parley.Invalid("order", "Invalid 'order': expected 'asc' or 'desc'.")
	}
	if text := query.Get("limit"); text != "" {
		page.Limit, err = strconv.Atoi(text)
		if err != nil || page.Limit < 1 || page.Limit > pageMost {
			return page, parley.Invalid("limit", "Invalid 'limit': expected a number from 1 to %d.", pageMost)
		}
	}
	return page, nil
}

// ListOf returns a part of a list in the shape of the interface.
func ListOf[T, S any](list convo.List[T], shown []S) openai.List {
	data := make([]any, len(shown))
	for i := range shown {
		data[i] = shown[i]
	}
	return openai.List{
		Object:  "list",
		Data:    data,
		FirstID: list.First,
		LastID:  list.Last,
		HasMore: list.More,
	}
}
