package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftime formats the render's time as C's strftime does in the C locale,
// with the flags of the GNU library. The time has no zone, as in Python's
// datetime.now().
func (in *interp) strftime(format string) (Value, error) {
	w := &reprWriter{in: in}
	for format != "" {
		at := strings.IndexByte(format, '%')
		if at < 0 || at+1 >= len(format) {
			break
		}
		if err := w.put(format[:at]); err != nil {
			return nil, err
		}
		format = format[at:]
		flag, width, verbAt := parseTimeDirective(format)
		text, ok := "", false
		if verbAt < len(format) {
			text, ok = timeField(in.now, format[verbAt])
		}
		if !ok {
			text, verbAt = format[:2], 1
		} else {
			text = padTime(text, flag, width, format[verbAt])
		}
		if err := w.put(text); err != nil {
			return nil, err
		}
		format = format[verbAt+1:]
	}
	if err := w.put(format); err != nil {
		return nil, err
	}
	return w.text.String(), nil
}

// timeWidthMax bounds the width a directive may ask for.
const timeWidthMax = 1024

// parseTimeDirective reads "%[flag][width]" and returns the place of the verb.
func parseTimeDirective(s string) (flag byte, width, verbAt int) {
	verbAt = 1
	for verbAt < len(s) && strings.IndexByte("-_0^#", s[verbAt]) >= 0 {
		flag = s[verbAt]
		verbAt++
	}
	for verbAt < len(s) && isDecimal(s[verbAt]) {
		width = min(width*10+int(s[verbAt]-'0'), timeWidthMax)
		verbAt++
	}
	return flag, width, verbAt
}

// padTime applies a flag and a width to a field.
func padTime(text string, flag byte, width int, verb byte) string {
	isNumeric := strings.IndexByte("CdegGHIjklmMsSuUVwWyY", verb) >= 0
	switch flag {
	case '-':
		if isNumeric {
			trimmed := strings.TrimLeft(text, "0 ")
			if trimmed == "" {
				trimmed = "0"
			}
			text = trimmed
		}
	case '_':
		if isNumeric {
			digits := strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
			text = fmt.Sprintf("%*s", len(text), digits)
		}
	case '0':
		text = strings.ReplaceAll(text, " ", "0")
	case '^':
		text = strings.ToUpper(text)
	case '#':
		text = swapTimeCase(text, verb)
	}
	if len(text) >= width || flag == '-' {
		return text
	}
	fill := " "
	if (isNumeric && flag != '_') || flag == '0' {
		fill = "0"
	}
	return strings.Repeat(fill, width-len(text)) + text
}

func swapTimeCase(text string, verb byte) string {
	if verb == 'p' || verb == 'Z' {
		return strings.ToLower(text)
	}
	return strings.ToUpper(text)
}

// timeField writes one directive; ok is false for an unknown one.
func timeField(t time.Time, verb byte) (text string, ok bool) {
	if layout, ok := timeLayouts[verb]; ok {
		return t.Format(layout), true
	}
	year, week := t.ISOWeek()
	switch verb {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'z', 'Z':
		return "", true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'e':
		return fmt.Sprintf("%2d", t.Day()), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'g':
		return fmt.Sprintf("%02d", year%100), true
	case 'G':
		return strconv.Itoa(year), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'Y':
		return strconv.Itoa(t.Year()), true
	}
	return "", false
}

var timeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan",
	'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06",
	'F': "2006-01-02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04",
	'p': "PM", 'P': "pm", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05",
	'T': "15:04:05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06",
}
