package jinja

import (
	"fmt"
	"strings"
	"time"
)

// timeLayouts are the directives of strftime, as layouts of Go.
var timeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan",
	'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06", 'e': "_2",
	'F': "2006-01-02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04",
	'p': "PM", 'R': "15:04", 'S': "05", 'T': "15:04:05", 'x': "01/02/06",
	'X': "15:04:05", 'y': "06", 'Y': "2006", 'Z': "", 'z': "",
}

// strftime formats now as C's strftime does in the C locale. The minus of the
// GNU library, as in %-d, drops leading zeros. The time has no zone, as in
// Python's datetime.now().
func (r *state) strftime(format string) string {
	w := &valueWriter{r: r}
	for {
		before, rest, found := strings.Cut(format, "%")
		w.put(before)
		if !found {
			return w.text.String()
		}
		directive, isShort := strings.CutPrefix(rest, "-")
		if directive == "" {
			failValue("strftime_now: the format ends in %%")
		}
		text, ok := timeField(r.now, directive[0])
		if !ok {
			failValue("strftime_now: no directive %%%c; use one of aAbBcdDeFfHhIjmMpRSTxXyYzZ", directive[0])
		}
		if isShort {
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		w.put(text)
		format = directive[1:]
	}
}

func timeField(t time.Time, verb byte) (string, bool) {
	switch verb {
	case '%':
		return "%", true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	}
	layout, ok := timeLayouts[verb]
	return t.Format(layout), ok
}
