package safety

import (
	"fmt"
	"slices"
	"strings"
)

// A Category is what a text can be found to be.
type Category uint8

// The categories. The first seven are harms; they are weighed by the
// classifier. Injection is an attempt to take a model over, in the words of a
// user or in text that a tool brought. Secrets and PII are found as spans.
const (
	Harassment Category = iota
	Hate
	Sexual
	SexualMinors
	Violence
	SelfHarm
	Illicit
	Injection
	Secrets
	PII
	categories // how many there are
)

// harms is how many categories, from the first, are kinds of harm.
const harms = int(Illicit) + 1

var categoryNames = [categories]string{
	"harassment", "hate", "sexual", "sexual/minors", "violence", "self-harm", "illicit", "injection", "secrets", "pii",
}

// Categories lists all categories.
func Categories() []Category {
	list := make([]Category, categories)
	for i := range list {
		list[i] = Category(i)
	}
	return list
}

// String returns the category's name.
func (c Category) String() string {
	if c < categories {
		return categoryNames[c]
	}
	return fmt.Sprintf("category(%d)", uint8(c))
}

// MarshalText writes the category's name.
func (c Category) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the name of a category.
func (c *Category) UnmarshalText(name []byte) error {
	parsed, err := ParseCategory(string(name))
	*c = parsed
	return err
}

// ParseCategory returns the category of a name.
func ParseCategory(name string) (Category, error) {
	if i := slices.Index(categoryNames[:], name); i >= 0 {
		return Category(i), nil
	}
	return 0, fmt.Errorf("there is no safety category %q: use one of %s", name, strings.Join(categoryNames[:], ", "))
}
