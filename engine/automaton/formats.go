package automaton

// Formats are the expressions of the formats that strings can be held to. They
// take no more than the format allows; of dates they leave out the days that
// only some months have beyond the 28th, unless every such month has them, and the
// year 0000, which many readers do not know. Names of hosts have no two hyphens in a row,
// which would have to be read as an encoding. A format that is not here is an annotation.
var Formats = map[string]string{
	"date":                  `^` + date + `$`,
	"time":                  `^` + clock + `$`,
	"date-time":             `^` + date + `T` + clock + `$`,
	"duration":              `^P(\d{1,4}Y(\d{1,4}M(\d{1,4}D)?)?|\d{1,4}M(\d{1,4}D)?|\d{1,4}D|\d{1,4}W|(\d{1,4}D)?T(\d{1,4}H(\d{1,4}M(\d{1,4}S)?)?|\d{1,4}M(\d{1,4}S)?|\d{1,4}S))$`,
	"uuid":                  `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`,
	"email":                 email,
	"idn-email":             email,
	"hostname":              `^` + host + `$`,
	"idn-hostname":          `^` + host + `$`,
	"ipv4":                  `^` + octet + `(\.` + octet + `){3}$`,
	"ipv6":                  `^([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}$`,
	"uri":                   `^` + uri + `$`,
	"iri":                   `^` + uri + `$`,
	"uri-reference":         `^(` + uri + `|` + relative + `)$`,
	"iri-reference":         `^(` + uri + `|` + relative + `)$`,
	"uri-template":          `^(` + uri + `|` + relative + `)$`,
	"json-pointer":          `^(/([^~/]|~[01])*)*$`,
	"relative-json-pointer": `^(0|[1-9]\d{0,8})(#|(/([^~/]|~[01])*)*)$`,
	"semver":                `^` + count + `\.` + count + `\.` + count + `(-[a-z][0-9a-z-]*(\.[a-z][0-9a-z-]*)*)?$`,
	"regex":                 `^\^?(` + atom + `)*\$?$`,
}

// ShortFormats are expressions for texts whose length is bounded: they have fewer states,
// and take no more than the format allows as long as a text has at most shortFormatMax
// characters.
var ShortFormats = map[string]string{
	"email":         shortEmail,
	"idn-email":     shortEmail,
	"hostname":      `^` + shortHost + `$`,
	"idn-hostname":  `^` + shortHost + `$`,
	"uri":           `^` + shortURI + `$`,
	"iri":           `^` + shortURI + `$`,
	"uri-reference": `^(` + shortURI + `|` + relative + `)$`,
	"iri-reference": `^(` + shortURI + `|` + relative + `)$`,
	"uri-template":  `^(` + shortURI + `|` + relative + `)$`,
}

// OuterFormats are expressions that are found in every text of a format, and in others.
var OuterFormats = map[string]string{
	"date":         `^\d\d\d\d-\d\d-\d\d$`,
	"time":         `^\d\d:\d\d:\d\d`,
	"date-time":    `^\d\d\d\d-\d\d-\d\d[Tt ]`,
	"duration":     `^P`,
	"uuid":         `^[0-9a-fA-F-]*$`,
	"email":        `@`,
	"idn-email":    `@`,
	"hostname":     `^[A-Za-z0-9.-]*$`,
	"ipv4":         `^\d+\.\d+\.\d+\.\d+$`,
	"ipv6":         `:`,
	"uri":          `:`,
	"iri":          `:`,
	"json-pointer": `^(/|$)`,
}

// ShortFormatMax is how many characters a text of a short format may have.
const ShortFormatMax = 63

const (
	year  = `([1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])`
	date  = year + `-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)`
	clock = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
	label = `[A-Za-z0-9]{1,15}(-[A-Za-z0-9]{1,15}){0,2}`
	host  = label + `(\.` + label + `){0,4}`
	email = `^[A-Za-z0-9_+-]{1,32}(\.[A-Za-z0-9_+-]{1,15}){0,2}@` + label + `(\.` + label + `){1,3}$`
	count = `(0|[1-9]\d{0,5})`
	octet = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	path  = `(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*` + query
	// relative does not begin with two slashes, behind which a host would stand.
	relative = `(/([A-Za-z0-9._~!$&'()*+,;=:@-]+(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*)?)?` + query
	query    = `(\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(#[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?`
	uri      = `[a-z][a-z0-9+.-]{0,15}://` + host + `(:[1-9]\d{0,3})?` + path

	shortLabel = `[A-Za-z0-9]+(-[A-Za-z0-9]+)*`
	shortHost  = shortLabel + `(\.` + shortLabel + `)*`
	shortEmail = `^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@` + shortLabel + `(\.` + shortLabel + `)+$`
	shortURI   = `[a-z][a-z0-9+.-]*://` + shortHost + `(:[1-9]\d{0,3})?` + path

	atom = `([A-Za-z0-9 _@#%&=:;,<>/~!"'-]|\\[dwsDWS.+*?^$/\\]|\.|\[[A-Za-z0-9_ .]+\])[*+?]?`
)
