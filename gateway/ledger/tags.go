package ledger

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/gateway/db"
)

// Bounds of tags, which are those of a request's metadata. Pairs beyond them are left out.
const (
	tagsMax     = 16
	tagKeyMax   = 64
	tagValueMax = 512
)

// Tags are what the client says that a request was for, such as a project or a feature.
type Tags map[string]string

// TagsOf returns the metadata of a request as far as it can be tags. It is nil if there are none.
func TagsOf(metadata map[string]string) Tags {
	var tags Tags
	if len(metadata) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[key]
		if key == endUser || len(tags) == tagsMax || !mayBeTag(key, tagKeyMax) || !mayBeTag(value, tagValueMax) {
			continue
		}
		if tags == nil {
			tags = Tags{}
		}
		tags[key] = value
	}
	return tags
}

// endUser is where Anthropic's clients name the person they act for, who is not to be found in the ledger.
const endUser = "user_id"

// mayBeTag reports whether a text is short enough, and one that PostgreSQL can look for.
func mayBeTag(text string, most int) bool {
	return utf8.RuneCountInString(text) <= most && !strings.Contains(text, "\x00")
}

// text returns the tags as the table has them.
func (t Tags) text() string {
	if len(t) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(t) // texts do not fail
	return string(text)
}

const tagPrefix = "tag:"

// ByTag is the tag of a key. Entries without it count as if it were empty.
func ByTag(key string) By { return By(tagPrefix + key) }

// column returns the expression of what sums are told apart by. The key of a tag is an
// argument, whose place is returned by place.
func (b By) column(kind db.Kind, place func(any) string) string {
	key, isTag := strings.CutPrefix(string(b), tagPrefix)
	if !isTag {
		return byColumns[b]
	}
	if kind == db.SQLite {
		return "coalesce((SELECT value FROM json_each(ledger.tags) WHERE key = " + place(key) + "), '')"
	}
	return "coalesce(CAST(tags AS jsonb) ->> CAST(" + place(key) + " AS TEXT), '')"
}
