package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// A chatter is somebody who runs parley chat, with a home of their own.
type chatter struct {
	t    *testing.T
	home string
	vars []string
}

func newChatter(t *testing.T) *chatter { return &chatter{t: t, home: t.TempDir()} }

func (c *chatter) command(args ...string) *exec.Cmd {
	c.t.Helper()
	exe, err := exec.LookPath("parley") // testscript.Main put this test binary there
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), exe, append([]string{"chat"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+c.home, "TEST_DEFAULT_URL="+nowhere, "PARLEY_URL=", "NO_COLOR=",
		"TERM=xterm")
	cmd.Env = append(cmd.Env, c.vars...)
	return cmd
}

func (c *chatter) sit(columns, rows int, args ...string) *testkit.Terminal {
	c.t.Helper()
	x := testkit.StartTerminal(c.t, columns, rows, c.command(args...))
	x.WaitFor(">>>")
	return x
}

// prompts waits until so many prompts wait or have waited for input.
func prompts(x *testkit.Terminal, n int) string {
	return x.Wait("the prompt again", func(text string) bool {
		return strings.Count(text, ">>>") >= n
	})
}

// askStory asks for a long answer and returns when it has begun.
func askStory(x *testkit.Terminal) {
	const question = "Tell me a long story about a brave cat."
	x.Type(question + "\r")
	x.Wait("the beginning of the story", func(text string) bool {
		_, answer, _ := strings.Cut(text, question)
		return strings.Contains(answer, "y")
	})
}

const capital = "What is the capital of France?"

// exact makes answers the same every time.
var exact = []string{"--set", "temperature=0", "--set", "seed=1"}

func TestChatWithoutServer(t *testing.T) {
	x := newChatter(t).sit(80, 24, exact...)
	x.WaitFor("No server is running; loading the model into this process.")
	x.Type(capital + "\r")
	x.WaitFor("Paris")
	prompts(x, 2)
	x.Type("/stats\r")
	x.WaitFor("of 2048 tokens used")
	text := x.WaitFor("total: 1 answers")
	for _, part := range []string{"first token", "tokens/s",
		"15 prompt tokens, 0 cached (the rest too short to be cached)"} {
		if !strings.Contains(text, part) {
			t.Errorf("/stats does not tell %q", part)
		}
	}
	if !strings.Contains(x.Raw(), "\x1b[?2004h") {
		t.Error("bracketed paste was not asked for")
	}
	x.Type("\x04")
	if code := x.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.HasSuffix(strings.TrimSpace(x.Raw()), "\x1b[?2004l") {
		t.Errorf("bracketed paste was left on: %q", x.Raw()[len(x.Raw())-40:])
	}
}

func TestChatSeveralLines(t *testing.T) {
	x := newChatter(t).sit(60, 40, exact...)
	x.Type("first\x1b\rsecond\nthird\\\rfourth\r") // Alt-Enter, Ctrl-J, backslash and Enter
	prompts(x, 2)
	x.Type("\"\"\"\rone\rtwo\r\"\"\"\r")
	prompts(x, 3)
	x.Type("\x1b[200~/not a command\rpasted\x1b[201~")
	x.WaitFor("pasted") // and not sent
	x.Type("\x03/show\r")
	x.WaitFor("user: first\nsecond\nthird\nfourth\n")
	x.WaitFor("user: one\ntwo\n")
	x.Type("//slash\r")
	x.Type("/show\r")
	x.WaitFor("user: /slash")
}

func TestChatHistoryIsKept(t *testing.T) {
	c := newChatter(t)
	x := c.sit(80, 24, "--model", "polly-mini")
	x.Type("/set seed 7\r/set seed 8\r")
	prompts(x, 3)
	x.Type("\x1b[A\x1b[A\x1b[B\x01\x0b\x04") // up, up, down, then an empty line and Ctrl-D
	if code := x.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	again := c.sit(80, 24, "--model", "polly-mini")
	again.Type("\x1b[A\x1b[A")
	again.WaitFor(">>> /set seed 7")
	again.Type("\x12seed 8")
	again.WaitFor("(search) seed 8: /set seed 8")
	again.Type("\x05\x7f9\r/set\r")
	again.WaitFor("seed         9")
	st, err := os.Stat(filepath.Join(c.home, "parley", "chat_history"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the history: %v, %v", st, err)
	}
}

func TestChatInterruptStopsTheAnswerOnly(t *testing.T) {
	x := newChatter(t).sit(80, 24, exact...)
	askStory(x)
	x.Type("\x03")
	x.WaitFor("(stopped)")
	x.Type(capital + "\r")
	x.WaitFor("Paris")
	prompts(x, 3)
	x.Type("/show\r")
	text := x.WaitFor("user: " + capital)
	if !strings.Contains(text, "assistant: ") {
		t.Error("what came of the answer was not kept")
	}
	x.Type("throw this away\x03")
	x.Type("\x03")
	x.WaitFor("Press Ctrl-C again")
	x.Type("\x03")
	if code := x.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestChatTypesAhead: what is typed during an answer waits for the next prompt.
func TestChatTypesAhead(t *testing.T) {
	x := newChatter(t).sit(80, 24, exact...)
	askStory(x)
	x.Type("/set seed 5\r/set\r")
	x.Type("\x03")
	x.WaitFor("seed         5")
}

func TestChatResize(t *testing.T) {
	x := newChatter(t).sit(60, 24, exact...)
	text := "this line is longer than thirty columns and must stay whole"
	x.Type(text)
	x.WaitFor("must stay wh")
	x.Resize(30, 24)
	x.Wait("the line in rows of 30", func(screen string) bool {
		return strings.HasSuffix(screen, ">>> this line is longer than t\nhirty columns and must stay wh\nole")
	})
	x.Resize(100, 24)
	x.Wait("the line in one row", func(screen string) bool { return strings.HasSuffix(screen, "\n>>> "+text) })
	x.Type("\x01A \r")
	prompts(x, 2)
	x.Type("/show\r")
	x.WaitFor("user: A " + text)
}

func TestChatSurvivesTheServer(t *testing.T) {
	server := startServer(t)
	c := newChatter(t)
	x := c.sit(80, 40, append(exact, "--url", server.url)...)
	x.WaitFor("at " + server.url)
	askStory(x)
	if err := server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	x.WaitFor("was lost mid-answer. The text so far stays in the conversation")
	_ = server.cmd.Wait()
	x.Type(capital + "\r")
	x.WaitFor("no server answers at " + server.url)
	x.WaitFor("restart the server and type /retry")
	startServer(t, "--addr", strings.TrimPrefix(server.url, "http://"))
	x.Type("/retry\r")
	x.WaitFor("Paris")
	x.Type("/show\r")
	x.WaitFor("user: Tell me a long story")
}

func TestChatStyles(t *testing.T) {
	c := newChatter(t)
	x := c.sit(80, 24, exact...)
	if !strings.Contains(x.Raw(), "\x1b[2m") {
		t.Error("nothing is pale")
	}
	c.vars = []string{"NO_COLOR=1"}
	plain := c.sit(80, 24, exact...)
	plain.Type("Hello!\r")
	prompts(plain, 2)
	if style := regexp.MustCompile(`\x1b\[[0-9;]*m`).FindString(plain.Raw()); style != "" {
		t.Errorf("NO_COLOR has %q", style)
	}
}

func TestChatSavesAndLoads(t *testing.T) {
	c := newChatter(t)
	x := c.sit(80, 40, append(exact, "--system", "You are kind.")...)
	x.Type(capital + "\r")
	x.WaitFor("Paris")
	prompts(x, 2)
	x.Type("/save france\r")
	x.WaitFor("Saved to ")
	x.Type("/save france --force\r/clear\r/show\r")
	x.WaitFor("system: You are kind.")
	x.Type("/quit\r")
	if code := x.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	again := c.sit(80, 40)
	again.Type("/load fr\t\r")
	again.WaitFor("user: " + capital)
	again.WaitFor("assistant: ")
	again.Type("/load nothing\r")
	again.WaitFor("no saved conversation \"nothing\"")
	again.Type("/model polly-m\t\r")
	again.WaitFor("Switched to polly-mini.")
	again.Type("/model other\r")
	again.WaitFor("no model \"other\" loaded into this process; available: polly, polly-mini")
	again.Type("/nonsense\r")
	again.WaitFor("unknown command /nonsense")
}

// TestChatTellsWhatItWaitsFor: while another answer has the only place, the
// terminal says so in a line that is gone when the answer begins.
func TestChatTellsWhatItWaitsFor(t *testing.T) {
	server := startServer(t, "--seqs", "1", "--speculate", "off", "--share", "off")
	other := newChatter(t).sit(80, 24, append(exact, "--url", server.url)...)
	leave := takeTheSeat(t, server.url)
	other.Type(capital + "\r")
	other.WaitFor("queued: ")
	leave()
	other.WaitFor("Paris")
	if text := prompts(other, 2); strings.Contains(text, "waiting") {
		t.Errorf("the line stayed:\n%s", text)
	}
}

// takeTheSeat has a server write an answer that does not end before somebody leaves.
func takeTheSeat(t *testing.T, url string) (leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	body := strings.NewReader(
		`{"stream":true,"ignore_eos":true,"messages":[{"role":"user","content":"Tell me a long story."}]}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if _, err := response.Body.Read(make([]byte, 1)); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", response.StatusCode, err)
	}
	go func() { _, _ = io.Copy(io.Discard, response.Body) }()
	return leave
}

func TestChatElsewhere(t *testing.T) {
	c := newChatter(t)
	c.vars = []string{"VISUAL=sed -i s/brave/clever/"}
	x := c.sit(80, 24, exact...)
	x.Type("brave\x07")
	x.WaitFor(">>> clever")
}

func TestChatInPipes(t *testing.T) {
	c := newChatter(t)
	cmd := c.command(append(exact, "What is the capital of")...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("France?\n"), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	if text := out.String(); !strings.Contains(text, "Paris") || strings.Contains(text, "\x1b") ||
		!strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n") {
		t.Errorf("standard output has %q", text)
	}
	if errs.Len() > 0 {
		t.Errorf("standard error has %q", errs.String())
	}
	verbose := c.command(append(exact, "--verbose", capital)...)
	out.Reset()
	verbose.Stdout, verbose.Stderr = &out, &errs
	if err := verbose.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "first token") || strings.Contains(out.String(), "first token") {
		t.Errorf("standard output has %q, standard error %q", out.String(), errs.String())
	}
}
