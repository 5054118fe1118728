package term

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrInterrupted says that the user pressed Ctrl-C, which threw away what had been
// typed.
var ErrInterrupted = errors.New("interrupted")

// escapeWait is how long the rest of a key may take after an escape. Terminals
// send keys in one piece; only a bad line tears them.
const escapeWait = 50 * time.Millisecond

const (
	pasteModeOn  = "\x1b[?2004h"
	pasteModeOff = "\x1b[?2004l"
	clearScreen  = "\x1b[H\x1b[2J"
)

// An Input asks the user for texts.
type Input struct {
	Device *Device
	Editor *Editor
	// Elsewhere lets the user change a text in another program, for which the
	// terminal is as it was found; nil if there is none.
	Elsewhere func(text string) (string, error)

	keys    Keys
	waiting []Key // came with the keys of the last text
	painter painter
	prompt  string
	more    string
}

// Ask shows a prompt and returns the text that the user typed, which is also
// put into the history. The error is ErrInterrupted after Ctrl-C, io.EOF after
// Ctrl-D, and that of ctx if it ends. more is the prompt of further lines.
func (in *Input) Ask(ctx context.Context, prompt, more string) (text string, err error) {
	if err := in.Device.Edit(); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, in.Device.Wake)()
	in.prompt, in.more, in.painter = prompt, more, painter{}
	in.Editor.Set("")
	if err := in.write(pasteModeOn); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.write(pasteModeOff)) }()
	for {
		outcome, err := in.step(ctx)
		if err != nil {
			return "", errors.Join(err, in.leave(outcome))
		}
		if outcome == Submitted {
			text := in.Editor.Text()
			return text, errors.Join(in.leave(outcome), in.Editor.history.Add(text))
		}
	}
}

// step draws the text, waits for the next key and applies it.
func (in *Input) step(ctx context.Context) (EditorAction, error) {
	if len(in.waiting) == 0 {
		if err := in.write(in.painter.paint(in.view())); err != nil {
			return Edited, err
		}
		if err := in.read(ctx); err != nil {
			return Edited, err
		}
	}
	for len(in.waiting) > 0 {
		key := in.waiting[0]
		in.waiting = in.waiting[1:]
		switch outcome := in.Editor.Press(key); outcome {
		case Interrupted:
			return outcome, ErrInterrupted
		case Ended:
			return outcome, io.EOF
		case Submitted:
			return outcome, nil
		case Edited:
		default:
			return outcome, in.outside(outcome)
		}
	}
	return Edited, nil
}

// read waits for keys and follows the size of the screen meanwhile.
func (in *Input) read(ctx context.Context) error {
	buf := make([]byte, 4096)
	for len(in.waiting) == 0 {
		var wait time.Duration
		if in.keys.Waiting() {
			wait = escapeWait
		}
		n, event, err := in.Device.Read(buf, wait)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case event == Typed:
			in.waiting = in.keys.Decode(buf[:n])
		case event == Resized:
			columns, _ := in.Device.Size()
			if err := in.write(in.painter.repaint(in.view(), columns)); err != nil {
				return err
			}
		case event == Silent:
			in.waiting = in.keys.Flush()
		}
	}
	return nil
}

func (in *Input) view() view {
	columns, rows := in.Device.Size()
	return in.layout(columns).clip(rows)
}

func (in *Input) layout(columns int) view {
	prompt := in.prompt
	if wanted, ok := in.Editor.searched(); ok {
		prompt = "(search) " + wanted + ": "
	}
	return layout(prompt, in.more, in.Editor.text, in.Editor.at, columns)
}

// leave puts the cursor below the text, all of which stays on the screen.
func (in *Input) leave(outcome EditorAction) error {
	columns, _ := in.Device.Size()
	if outcome != Submitted && in.Editor.Text() == "" {
		return in.write("\r\n")
	}
	in.Editor.at, in.Editor.search = len(in.Editor.text), nil
	return in.write(in.painter.paint(in.layout(columns)) + "\r\n")
}

// outside does what the editor itself cannot.
func (in *Input) outside(outcome EditorAction) error {
	switch outcome {
	case Cleared:
		in.painter = painter{}
		return in.write(clearScreen)
	case Suspended:
		err := errors.Join(in.write(pasteModeOff), in.Device.Suspend(), in.Device.Edit())
		in.painter = painter{}
		return errors.Join(err, in.write(pasteModeOn))
	case Elsewhere:
		if in.Elsewhere == nil {
			return nil
		}
		return in.editElsewhere()
	}
	return nil
}

// editElsewhere takes the text to another program and back. If that fails the
// text stays as it was.
func (in *Input) editElsewhere() error {
	if err := errors.Join(in.write(pasteModeOff), in.Device.Restore()); err != nil {
		return err
	}
	text, err := in.Elsewhere(in.Editor.Text())
	if err == nil {
		in.Editor.Set(plainText(text))
	}
	in.painter = painter{}
	return errors.Join(in.Device.Edit(), in.write("\r"+pasteModeOn))
}

func (in *Input) write(text string) error {
	_, err := io.WriteString(in.Device, text)
	return err
}
