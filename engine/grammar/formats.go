package grammar

// formats are the expressions of the formats that strings can be held to. They
// take no more than the format allows; of dates they leave out the days that
// only some months have beyond the 28th, unless every such month has them.
var formats = map[string]string{
	"date":      `^` + date + `$`,
	"time":      `^` + clock + `$`,
	"date-time": `^` + date + `T` + clock + `$`,
	"duration":  `^P(\d{1,4}Y(\d{1,4}M(\d{1,4}D)?)?|\d{1,4}M(\d{1,4}D)?|\d{1,4}D|\d{1,4}W|(\d{1,4}D)?T(\d{1,4}H(\d{1,4}M(\d{1,4}S)?)?|\d{1,4}M(\d{1,4}S)?|\d{1,4}S))$`,
	"uuid":      `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`,
	"email":     `^[A-Za-z0-9_+-]{1,32}(\.[A-Za-z0-9_+-]{1,16}){0,2}@` + label + `(\.` + label + `){1,3}$`,
	"hostname":  `^` + label + `(\.` + label + `){0,4}$`,
	"ipv4":      `^` + octet + `(\.` + octet + `){3}$`,
	"ipv6":      `^([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}$`,
	"uri": `^[a-z][a-z0-9+.-]{0,15}://` + label + `(\.` + label +
		`){0,4}(:[1-9]\d{0,3})?(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*(\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(#[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?$`,
}

const (
	date  = `\d{4}-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)`
	clock = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
	label = `[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?`
	octet = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
)
