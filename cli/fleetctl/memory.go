package fleetctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"parley/cli"
	"parley/fleet/scale"
)

// A scalerMemory is the file in which a scaler keeps what it has learned; no file if the path is empty.
type scalerMemory struct {
	path  string
	saved time.Time
}

// saveEvery is how often it is written: the parts of a day are ten minutes long.
const saveEvery = time.Minute

// recall gives a new scaler what is in the file. A file that cannot be used is told of, and the scaler begins anew.
func (m *scalerMemory) recall(s *scale.Scaler, tell io.Writer) {
	if m.path == "" {
		return
	}
	text, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var memory scale.Memory
	if err == nil {
		err = json.Unmarshal(text, &memory)
	}
	if err == nil {
		err = s.Recall(memory)
	}
	if err != nil {
		fmt.Fprintf(tell, "The scaler begins without its memory %s: %v\n", m.path, err)
	}
}

// save writes the file if it is due, or in any case at the end.
func (m *scalerMemory) save(ctx context.Context, s *scale.Scaler, now time.Time, end bool) error {
	if m.path == "" || !end && now.Sub(m.saved) < saveEvery {
		return nil
	}
	m.saved = now
	return cli.WriteWhole(ctx, m.path, func(w io.Writer) error { return json.NewEncoder(w).Encode(s.Memory()) })
}
