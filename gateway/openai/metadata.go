package openai

import "unicode/utf8"

// Bounds of metadata, which are the interface's own.
const (
	metadataPairsMax = 16
	metadataKeyMax   = 64
	metadataValueMax = 512
)

// readMetadata takes the client's own pairs of texts.
func readMetadata(v value, into *map[string]string) error {
	if !v.isObject() {
		return v.wrongType("an object")
	}
	*into = map[string]string{}
	for key, member := range v.members() {
		text, err := member.text()
		switch {
		case err != nil:
			return err
		case utf8.RuneCountInString(key) > metadataKeyMax || utf8.RuneCountInString(text) > metadataValueMax:
			return member.invalid("string_above_max_length",
				"string too long. Expected a name of at most %d and a value of at most %d characters.", metadataKeyMax,
				metadataValueMax)
		}
		(*into)[key] = text
		if len(*into) > metadataPairsMax {
			return v.invalid("object_above_max_properties",
				"too many properties. Expected an object with at most %d properties.", metadataPairsMax)
		}
	}
	return nil
}
