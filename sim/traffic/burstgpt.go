package traffic

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// burstColumns are those of a BurstGPT trace that say what is needed.
var burstColumns = []string{"Timestamp", "Request tokens", "Response tokens"}

// A burstReader knows where the columns are.
type burstReader struct {
	at     [3]int
	fields int
}

func (b *burstReader) parse(line []byte) (Row, bool, error) {
	fields := strings.Split(string(line), ",")
	if b.fields == 0 {
		b.fields = len(fields)
		for i, name := range burstColumns {
			if b.at[i] = slices.Index(fields, name); b.at[i] < 0 {
				return Row{}, false, fmt.Errorf("no column %q: expected a header with %q", name, burstColumns)
			}
		}
		return Row{}, false, nil
	}
	if len(fields) != b.fields {
		return Row{}, false, fmt.Errorf("%d fields: expected %d as in the header", len(fields), b.fields)
	}
	since, err := strconv.ParseFloat(fields[b.at[0]], 64)
	if err != nil || !(since >= 0 && since*1000 <= millisMax) {
		return Row{}, false, fmt.Errorf("time %q: expected seconds from 0 to %g", fields[b.at[0]], millisMax/1000)
	}
	input, err1 := strconv.Atoi(fields[b.at[1]])
	output, err2 := strconv.Atoi(fields[b.at[2]])
	if err := errors.Join(err1, err2); err != nil {
		return Row{}, false, fmt.Errorf("no token count: %w", err)
	}
	row := Row{At: time.Duration(math.Round(since * 1e9)), InputTokens: input, OutputTokens: output}
	return row, true, row.check()
}
