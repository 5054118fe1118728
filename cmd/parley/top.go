package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"parley/gateway/admin"
	"parley/internal/load"
)

// A topCommand shows what a server does, for as long as one looks.
type topCommand struct {
	serverCommand
	once bool
}

func newTop() *cobra.Command {
	t := &topCommand{}
	cmd := &cobra.Command{
		Use: "top", Short: "Watch a server: who runs and waits, what binds, whether promises are kept",
		Long: `Watch a server as it runs: one sentence on top says what binds and why; below it are
who runs and who waits, times against what is promised, tokens a second, and each
worker's memory. It is the page at /admin, for a terminal. q ends it.

Without a terminal, or with --once, it prints one picture and ends. With --json it
prints one picture a second, each on a line of its own.`,
		Example: "  parley top\n  parley top --once\n  parley top --json | jq -r .verdict.sentence",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	t.add(cmd)
	cmd.Flags().BoolVar(&t.once, "once", false, "print one picture and end")
	return cmd
}

func (t *topCommand) run(ctx context.Context, in io.Reader, out io.Writer) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	if t.once || !t.asJSON && !isTerminal(out) {
		p, err := pictureOf(ctx, c)
		switch {
		case err != nil:
			return startHint(err)
		case t.asJSON:
			return printJSON(out, p)
		}
		_, err = io.WriteString(out, drawTop(c.root, []*admin.Picture{p}, topWidth, false))
		return err
	}
	if t.asJSON {
		lines := json.NewEncoder(out)
		return interrupted(ctx, startHint(followPictures(ctx, c, func(p *admin.Picture) error { return lines.Encode(p) })))
	}
	return t.watch(ctx, c, in, out)
}

// interrupted is the error of one who looks until it is enough.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pictureOf asks what a server does now.
func pictureOf(ctx context.Context, c *client) (*admin.Picture, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	body, err := c.get(ctx, "/admin/api/now")
	if err != nil {
		return nil, err
	}
	var p admin.Picture
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("%s is no Parley server, or an old one: %w", c.root, err)
	}
	return &p, nil
}

// followPictures calls see for each picture of the live stream.
func followPictures(ctx context.Context, c *client, see func(*admin.Picture) error) error {
	response, err := c.send(ctx, http.MethodGet, "/admin/api/live", nil)
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
	return errors.New("the server ended")
}

// watch draws pictures until q is pressed. When the line is cut it tries again.
func (t *topCommand) watch(ctx context.Context, c *client, in io.Reader, out io.Writer) error {
	if _, err := pictureOf(ctx, c); err != nil {
		return startHint(err) // before the screen is taken
	}
	ctx, cancel := context.WithCancel(ctx)
	program := tea.NewProgram(topScreen{root: c.root, width: topWidth}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			err := followPictures(ctx, c, func(p *admin.Picture) error {
				program.Send(p)
				return nil
			})
			program.Send(lineCut{err})
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	_, err := program.Run()
	cancel()
	<-ended
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// lineCut says that nothing comes from the server at the moment.
type lineCut struct{ err error }

// topPictures is how many pictures are remembered, one for each second.
const topPictures = 120

// A topScreen is what is on the screen.
type topScreen struct {
	root   string
	width  int
	lately []*admin.Picture
	cut    error
}

// Init begins with nothing: pictures come by themselves.
func (s topScreen) Init() tea.Cmd { return nil }

// Update takes a picture, a key or another size.
func (s topScreen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case *admin.Picture:
		s.lately = append(s.lately[max(0, len(s.lately)-topPictures+1):len(s.lately):len(s.lately)], m)
		s.cut = nil
	case lineCut:
		s.cut = m.err
	case tea.WindowSizeMsg:
		s.width = m.Width
	case tea.KeyPressMsg:
		switch m.String() {
		case "q", "ctrl+c", "esc":
			return s, tea.Quit
		}
	}
	return s, nil
}

// View draws the latest picture.
func (s topScreen) View() tea.View {
	text := "Waiting for " + s.root + " …"
	if len(s.lately) > 0 {
		text = drawTop(s.root, s.lately, s.width, true)
	}
	if s.cut != nil {
		text += fmt.Sprintf("\n\nNo answer from the server (%v). Trying again.", s.cut)
	}
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}
