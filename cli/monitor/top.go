package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/cli"
	"parley/cli/remote"
	"parley/gateway/admin"
	"parley/internal/load"
	"parley/internal/term"

	"github.com/spf13/cobra"
)

// A topCommand shows what a server does, for as long as one looks.
type topCommand struct {
	remote.Command
	once bool
}

// NewTop returns the command `parley top`.
func NewTop() *cobra.Command {
	t := &topCommand{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a server: load, bottleneck and SLOs",
		Long: `Watch a server: the bottleneck in one sentence, running and queued requests, latency
against SLOs, tokens per second, and each worker's memory. It is the /admin page for a
terminal. Press q to quit.

Without a terminal, or with --once, it prints one snapshot and exits. With --json it
prints one snapshot per second, one per line.`,
		Example: "  parley top\n  parley top --once\n  parley top --json | jq -r .verdict.sentence",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	t.Add(cmd)
	cmd.Flags().BoolVar(&t.once, "once", false, "print one snapshot and exit")
	return cmd
}

func (t *topCommand) run(ctx context.Context, out io.Writer) error {
	c, err := t.Client()
	if err != nil {
		return err
	}
	if t.once || !t.JSON && !cli.IsTerminal(out) {
		p, err := remote.Picture(ctx, c)
		switch {
		case err != nil:
			return remote.StartHint(err)
		case t.JSON:
			return cli.PrintJSON(out, p)
		}
		_, err = io.WriteString(out, drawTop(c.Root, []*admin.Picture{p}, topWidth, false))
		return err
	}
	if t.JSON {
		lines := json.NewEncoder(out)
		return interrupted(ctx,
			remote.StartHint(followPictures(ctx, c, func(p *admin.Picture) error { return lines.Encode(p) })))
	}
	return t.watch(ctx, c)
}

// interrupted is the error of one who looks until it is enough.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// followPictures calls see for each picture of the live stream.
func followPictures(ctx context.Context, c *remote.Client, see func(*admin.Picture) error) error {
	response, err := c.Send(ctx, http.MethodGet, "/admin/api/live", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for data, err := range load.Events(response.Body) {
		if err != nil {
			return err
		}
		var p admin.Picture
		if err := json.Unmarshal(data, &p); err != nil {
			return err
		}
		if err := see(&p); err != nil {
			return err
		}
	}
	return errors.New("the server stopped")
}

// watch draws pictures until q is pressed. When the connection is cut it tries again.
func (t *topCommand) watch(ctx context.Context, c *remote.Client) error {
	if _, err := remote.Picture(ctx, c); err != nil {
		return remote.StartHint(err) // before the screen is taken
	}
	device, err := term.OpenDevice(os.Stdin, os.Stdout)
	if err != nil {
		return fmt.Errorf("the keyboard: %w: use --once", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	screen := &topScreen{root: c.Root}
	var following sync.WaitGroup
	following.Go(func() { screen.follow(ctx, c, device.Wake) })
	err = errors.Join(device.Edit(), screen.show(ctx, device))
	cancel()
	following.Wait()
	return errors.Join(err, device.Close())
}

// topPictures is how many pictures are remembered, one for each second.
const topPictures = 120

// A topScreen is what is on the screen. It is safe for concurrent use.
type topScreen struct {
	root string

	mu     sync.Mutex
	recent []*admin.Picture
	cut    error // why nothing comes from the server
}

// follow takes pictures from the server until ctx ends, and calls changed after each.
func (s *topScreen) follow(ctx context.Context, c *remote.Client, changed func()) {
	defer changed() // ctx has ended
	for ctx.Err() == nil {
		err := followPictures(ctx, c, func(p *admin.Picture) error {
			s.add(p)
			changed()
			return nil
		})
		s.lost(err)
		changed()
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (s *topScreen) add(p *admin.Picture) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = append(s.recent[max(0, len(s.recent)-topPictures+1):], p)
	s.cut = nil
}

func (s *topScreen) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = err
}

// text draws the latest picture.
func (s *topScreen) text(width int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := "Waiting for " + s.root + " …"
	if len(s.recent) > 0 {
		text = drawTop(s.root, s.recent, width, true)
	}
	if s.cut != nil {
		text += fmt.Sprintf("\n\nNo answer from the server (%v). Retrying.", s.cut)
	}
	return text
}

// What takes the screen and gives it back: the alternate one, without a cursor, on which
// long lines are cut off and not wrapped.
const (
	screenTake = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenGive = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// escapeWait is how long the rest of a key may take after its first byte.
const escapeWait = 50 * time.Millisecond

// show draws until a key ends it, ctx ends, or the terminal is gone.
func (s *topScreen) show(ctx context.Context, device *term.Device) error {
	_, err := io.WriteString(device, screenTake)
	var keys term.Keys
	input := make([]byte, 256)
	for err == nil && ctx.Err() == nil {
		columns, rows := device.Size()
		if _, err = io.WriteString(device, frame(s.text(columns), rows)); err != nil {
			break
		}
		wait := time.Duration(0)
		if keys.Waiting() {
			wait = escapeWait
		}
		var n int
		var event term.Event
		n, event, err = device.Read(input, wait)
		pressed := keys.Decode(input[:n])
		if event == term.Silent && keys.Waiting() {
			pressed = append(pressed, keys.Flush()...)
		}
		if slices.ContainsFunc(pressed, endsTop) {
			break
		}
	}
	_, giveErr := io.WriteString(device, screenGive)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(err, giveErr)
}

func endsTop(k term.Key) bool {
	return k.Kind == term.Interrupt || k.Kind == term.Escape || k.Kind == term.Insert && k.Text == "q"
}

// frame draws a text over what is on the screen, and cuts off what has no room.
func frame(text string, rows int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[:min(len(lines), rows)]
	return "\x1b[H" + strings.Join(lines, "\x1b[K\n") + "\x1b[J"
}
