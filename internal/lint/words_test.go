package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// A wording is an expression that CONTRIBUTING.md bans, and what to write
// instead.
type wording struct {
	match   *regexp.Regexp
	allowed *regexp.Regexp // what makes a match legitimate; nil allows none
	instead string
}

// wordings are the habits that make text hard to read or to search for.
var wordings = []wording{
	{
		match:   regexp.MustCompile(`(?i)\bso (many|much|long|often)\b( \w+)?`),
		allowed: regexp.MustCompile(`(?i) (that|as)$`),
		instead: "name the parameter or its unit",
	},
	{
		match: regexp.MustCompile(`(?i)(\w+ )?\b(is|are|was|were) no \w+`),
		allowed: regexp.MustCompile(
			`(?i)^there |no (longer|more|less|fewer|other|larger|smaller|later|older|worse|better|different)$`),
		instead: "write 'is not a …'",
	},
	{
		match:   regexp.MustCompile(`(?i)(\w+ )?\b(is|are|was|were) none\b`),
		allowed: regexp.MustCompile(`(?i)^there `),
		instead: "write 'is not one' or 'does not exist'",
	},
	{match: regexp.MustCompile(`(?i)\bwho(so)?ever\b`), instead: "name the actor"},
	{match: regexp.MustCompile(`(?i)\bthose who\b`), instead: "name them: operators, clients, requests"},
	{match: regexp.MustCompile(`(?i)\b(less|more|fewer) than none\b`), instead: "write 'negative'"},
	{
		match:   regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|anybody|no one|someone|everyone|anyone)\b`),
		instead: "name the actor: a client, a tenant, a goroutine",
	},
	{match: regexp.MustCompile(`(?i)\b(go|goes|going|went|gone) on\b`), instead: "continue, resume, happen"},
	{match: regexp.MustCompile(`(?i)\btells\b`), instead: "says, describes, reports, explains"},
	{
		match:   regexp.MustCompile(`(?:^|[.:;] )Who [a-z][^.]*[.?]?`),
		allowed: regexp.MustCompile(`[?]$`),
		instead: "name the subject",
	},
}

// unwanted lists the banned wordings in text.
func unwanted(text string) (complaints []string) {
	text = strings.Join(strings.Fields(text), " ")
	for _, w := range wordings {
		for _, found := range w.match.FindAllString(text, -1) {
			if w.allowed == nil || !w.allowed.MatchString(found) {
				complaints = append(complaints, fmt.Sprintf("%q: %s", found, w.instead))
			}
		}
	}
	return complaints
}

// worded lists the banned wordings in a file's strings and comments.
func (s *source) worded() (complaints []string) {
	complain := func(at token.Pos, text string) {
		for _, complaint := range unwanted(text) {
			complaints = append(complaints, fmt.Sprintf("%s: %s", s.fset.Position(at), complaint))
		}
	}
	for _, group := range s.file.Comments {
		complain(group.Pos(), group.Text())
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !singleWord.MatchString(lit.Value) {
			complain(lit.Pos(), lit.Value)
		}
		return true
	})
	return complaints
}

// singleWord matches a string of one word, which is data and not prose.
var singleWord = regexp.MustCompile("^[\"`]\\w+[\"`]$")

func TestWordsAreThoseOfTheField(t *testing.T) {
	left := map[string]int{}
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		found := s.worded()
		left[s.pkg] += len(found)
		report(t, wordsLeft, s.pkg, found)
	}
	shrinking(t, "words", wordsLeft, left)
}

// TestWordsOfOtherModules checks the modules of benchmarks and tools, and the
// texts of the pages: sources of the web that people read parts of.
func TestWordsOfOtherModules(t *testing.T) {
	root := testkit.Root()
	for _, folder := range []string{"bench", "tools"} {
		files, err := parseTree(filepath.Join(root, folder))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d Go files, %v", folder, len(files), err)
		}
		for _, s := range files {
			if s.test || s.generated {
				continue
			}
			for _, complaint := range s.worded() {
				t.Errorf("%s/%s", folder, complaint)
			}
		}
	}
	pages := 0
	err := filepath.WalkDir(filepath.Join(root, "web/src"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".svelte", ".ts", ".html"}, filepath.Ext(name)) {
			return err
		}
		pages++
		text, err := os.ReadFile(name)
		for _, complaint := range inParagraphs(name, string(text)) {
			t.Error(complaint)
		}
		return err
	})
	if err != nil || pages == 0 {
		t.Fatalf("%d sources of pages, %v", pages, err)
	}
}

// logCall matches the names of methods that write to a log.
var logCall = regexp.MustCompile(`^(Debug|Info|Warn|Error)(Context)?$`)

// article begins a message that is a sentence and not the name of an event.
var article = regexp.MustCompile(`^"(?i:an?|the) `)

// TestLogMessagesAreEvents finds log messages that are sentences: the name of an event
// is short and stable, so that it can be searched for.
func TestLogMessagesAreEvents(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !logCall.MatchString(method.Sel.Name) {
				return true
			}
			for _, arg := range call.Args[:min(2, len(call.Args))] {
				message, ok := arg.(*ast.BasicLit)
				if !ok || message.Kind != token.STRING {
					continue
				}
				if seen++; article.MatchString(message.Value) {
					t.Errorf("%s: %s is a sentence: name the event", s.fset.Position(message.Pos()), message.Value)
				}
				break
			}
			return true
		})
	}
	if seen < 50 {
		t.Errorf("only %d log messages were found", seen)
	}
}

func TestDocumentsUseTheWordsOfTheField(t *testing.T) {
	root := testkit.Root()
	left := map[string]int{}
	for _, pattern := range []string{"*.md", "*/*.md", "examples/*/*", "deploy/*/*", "internal/builtin/*.md"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, name := range files {
			text, err := os.ReadFile(name)
			rel, _ := filepath.Rel(root, name)
			if err != nil || rel == "CONTRIBUTING.md" {
				continue // a directory, or the page that quotes the wordings
			}
			found := inParagraphs(rel, string(text))
			left[rel] = len(found)
			report(t, documentsLeft, rel, found)
		}
	}
	shrinking(t, "documents", documentsLeft, left)
}

// inParagraphs lists the banned wordings in a document, except in code: between
// backquotes or indented by fences.
func inParagraphs(name, text string) (complaints []string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		for _, complaint := range unwanted(quotedCode.ReplaceAllString(paragraph, "``")) {
			complaints = append(complaints, fmt.Sprintf("%s, paragraph %d: %s", name, i+1, complaint))
		}
	}
	return complaints
}

var quotedCode = regexp.MustCompile("`[^`\n]*`")

func TestWordingsAreCaught(t *testing.T) {
	for _, text := range []string{
		"let so many in", "0 is no limit", "whoever asks", "those who wait", "less than none", "nobody waits",
		"the loop goes on", "it tells how", "there it is. Who waits, waits", "the rest are none",
	} {
		if len(unwanted(text)) != 1 {
			t.Errorf("%q gave %q", text, unwanted(text))
		}
	}
	for _, text := range []string{
		"so long as it runs", "so many that it fails", "there is no limit", "is no longer there", "Who is asking?",
	} {
		if len(unwanted(text)) != 0 {
			t.Errorf("%q gave %q", text, unwanted(text))
		}
	}
}
