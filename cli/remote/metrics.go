package remote

import (
	"bufio"
	"bytes"
	"math"
	"strconv"
	"strings"
)

// A Metric is one line of what GET /metrics says.
type Metric struct {
	Name, Model string
	Value       float64
	// Labels are its labels as they were written; see [Label].
	Labels string
}

// ParseMetrics reads the text format of Prometheus. Lines that it does not
// understand are left out: most are of no use here anyway.
func ParseMetrics(text []byte) (metrics []Metric) {
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, DocumentBytesMax)
	for scan.Scan() {
		if m, ok := ParseMetric(scan.Text()); ok {
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// ParseMetric reads one line of the text format; ok is false for comments and other
// lines.
func ParseMetric(line string) (m Metric, ok bool) {
	end := strings.IndexAny(line, "{ ")
	if end <= 0 || strings.HasPrefix(line, "#") {
		return m, false
	}
	m.Name = line[:end]
	rest := line[end:]
	if rest[0] == '{' {
		closing := LabelsEnd(rest)
		if closing < 0 {
			return m, false
		}
		m.Labels = rest[1:closing]
		m.Model = Label(m.Labels, "model_name")
		rest = rest[closing+1:]
	}
	fields := strings.Fields(rest) // a time may follow the value
	if len(fields) == 0 {
		return m, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	m.Value = value
	return m, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// LabelsEnd returns where the labels that text begins with end; braces within
// quotation marks do not count.
func LabelsEnd(text string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i
		}
	}
	return -1
}

// Label returns the value of a label.
func Label(labels, name string) string {
	for labels != "" {
		key, rest, ok := strings.Cut(labels, "=")
		quoted, err := strconv.QuotedPrefix(rest)
		if !ok || err != nil {
			return ""
		}
		if value, err := strconv.Unquote(quoted); err == nil && strings.TrimSpace(key) == name {
			return value
		}
		labels = strings.TrimLeft(rest[len(quoted):], ", ")
	}
	return ""
}
