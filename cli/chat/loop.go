package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"parley/cli"
	"parley/cli/remote"
	"parley/internal/term"
)

// converse talks with the person at the terminal until they leave.
func (c *chat) converse(ctx context.Context) (err error) {
	// An interrupt ends ctx, but it is to end an answer only.
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	device, err := term.OpenDevice(os.Stdin, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	history, historyErr := term.OpenHistory(c.historyFile())
	s := &session{chat: c, device: device, interrupts: interrupts}
	s.input = term.Input{Device: device, Editor: term.NewEditor(history), Elsewhere: editElsewhere}
	s.input.Editor.Complete = c.completions
	s.note("Chatting with %s, %s. /help lists the commands, Ctrl-D quits.", c.talk.Model, c.where)
	if historyErr != nil {
		s.note("Cannot read the history: %v", historyErr)
	}
	return s.run(ctx)
}

// A session is a chat at a terminal.
type session struct {
	*chat
	device     *term.Device
	input      term.Input
	interrupts chan os.Signal
}

// note prints something that is not an answer.
func (s *session) note(format string, args ...any) {
	fmt.Fprint(s.device, s.pale(s.wrapped(fmt.Sprintf(format, args...))))
}

// wrapped is text as lines that fit the screen.
func (s *session) wrapped(text string) string {
	columns, _ := s.device.Size()
	prose := term.Prose{Columns: columns}
	return prose.Add(text) + prose.End()
}

// run takes turns until the user quits.
func (s *session) run(ctx context.Context) error {
	for leaving := false; ; {
		text, err := s.input.Ask(ctx, ">>> ", "... ")
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return cli.ErrInterrupted
		case errors.Is(err, term.ErrInterrupted) && s.input.Editor.Text() != "":
			leaving = false
			continue
		case errors.Is(err, term.ErrInterrupted) && leaving:
			return nil
		case errors.Is(err, term.ErrInterrupted):
			leaving = true
			s.note("Press Ctrl-C again, or Ctrl-D, to quit.")
			continue
		case err != nil && text == "":
			return err
		case err != nil:
			s.note("Cannot write the history: %v", err)
		}
		leaving = false
		if done, err := s.turn(ctx, text); done || err != nil {
			return err
		}
	}
}

// turn obeys a command or asks a question. It reports whether the conversation
// is over.
func (s *session) turn(ctx context.Context, text string) (done bool, err error) {
	text = term.Unquote(text)
	switch {
	case strings.TrimSpace(text) == "":
		return false, nil
	case strings.HasPrefix(text, "//"):
		s.talk.ask(text[1:])
	case strings.HasPrefix(text, "/"):
		said, err := s.obey(text)
		if said != "" {
			fmt.Fprint(s.device, s.wrapped(said))
		}
		if errors.Is(err, errQuit) {
			return true, nil
		}
		if err != nil {
			s.note("%v", err)
		}
		if !s.askAgain {
			return false, nil
		}
		s.askAgain = false
	default:
		s.talk.ask(text)
	}
	return false, s.tell(ctx)
}

// tell asks the question and shows the answer as it comes. Ctrl-C stops it; what
// came stays part of the conversation.
func (s *session) tell(ctx context.Context) error {
	if err := s.device.Listen(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.stopOnInterrupt(cancel)()
	q := s.talk.question()
	s.shape(&q)
	show := &teller{session: s, waits: waitLine{out: s.device, columns: func() int {
		n, _ := s.device.Size()
		return n
	}, pale: s.pale}}
	handlers := remote.Handlers{Text: show.say}
	if q.Progress = s.reports() && obeysCodes(); q.Progress {
		handlers.Progress = show.waits.show
	}
	r, err := s.client.Ask(ctx, q, handlers)
	show.end()
	s.remember(r)
	switch {
	case errors.Is(err, context.Canceled):
		s.note("(stopped)")
	case err != nil:
		s.note("%s", explain(err))
	case r.Finish == "length":
		s.note("(the answer reached its length limit: ask to continue, or /set max_tokens)")
	}
	if s.verbose && err == nil {
		s.note("%s", strings.Join(summary(&r), "; "))
	}
	_, err = fmt.Fprintln(s.device)
	return err
}

// stopOnInterrupt calls cancel on the next Ctrl-C, until the function that it
// returns is called.
func (s *session) stopOnInterrupt(cancel func()) (done func()) {
	select {
	case <-s.interrupts: // came too late for the answer before
	default:
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.interrupts:
			cancel()
		case <-over:
		}
	}()
	return func() { close(over); <-ended }
}

// remember makes an answer part of the conversation and of the totals.
func (s *session) remember(r remote.Reply) {
	s.talk.answer(r.Text)
	s.last = r
	s.totals.answers++
	if u := r.Usage; u != nil {
		s.totals.prompt += u.PromptTokens
		s.totals.cached += u.PromptTokensDetails.CachedTokens
		s.totals.output += u.CompletionTokens
	}
}

// A teller shows an answer: what the model thinks paler than what it says.
type teller struct {
	*session
	prose   term.Prose
	thought bool
	waits   waitLine
}

func (t *teller) say(text string, thought bool) error {
	t.waits.clear()
	if thought != t.thought {
		t.end()
		t.thought = thought
	}
	t.prose.Columns, _ = t.device.Size()
	t.prose.Color = t.color && !thought
	text = t.prose.Add(text)
	if thought {
		text = t.pale(text)
	}
	_, err := io.WriteString(t.device, text)
	return err
}

func (t *teller) end() {
	t.waits.clear()
	fmt.Fprint(t.device, t.prose.End())
}

// editElsewhere lets the user change a text in the editor of their choice.
func editElsewhere(text string) (changed string, err error) {
	f, err := os.CreateTemp("", "parley-*.md") // readable by its owner only
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	// A variable may hold arguments, too, so the shell reads it.
	cmd := exec.Command("/bin/sh", "-c", `${VISUAL:-${EDITOR:-vi}} "$1"`, "sh", f.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", err
	}
	edited, err := os.ReadFile(f.Name())
	return strings.TrimRight(string(edited), "\n"), err
}
