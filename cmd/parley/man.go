package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parley/cli"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages",
		Long:    `Write the manual pages of all commands to a directory, in the format of man(1).`,
		Example: "  parley man ~/.local/share/man/man1 && man parley-chat",
		Args:    cli.Exactly(1, "the directory to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for _, page := range manPages(cmd.Root()) {
				path := filepath.Join(args[0], page.name())
				if err := cli.WriteWhole(cmd.Context(), path, page.write); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// A manPage is the manual of one command.
type manPage struct{ command *cobra.Command }

// manPages returns the manuals of a command and of all below it that users are
// told of.
func manPages(root *cobra.Command) []manPage {
	if !root.HasParent() {
		root.InitDefaultHelpCmd()
		root.InitDefaultCompletionCmd()
	}
	pages := []manPage{{root}}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			pages = append(pages, manPages(c)...)
		}
	}
	return pages
}

func (p manPage) title() string { return strings.ReplaceAll(p.command.CommandPath(), " ", "-") }
func (p manPage) name() string  { return p.title() + ".1" }

// write writes the page, in the order that readers of manuals expect.
func (p manPage) write(w io.Writer) error {
	c := p.command
	var out strings.Builder
	fmt.Fprintf(&out, ".TH %q 1 \"\" \"parley %s\" \"Parley\"\n", strings.ToUpper(p.title()), cli.Version)
	fmt.Fprintf(&out, ".SH NAME\n%s \\- %s\n", roff(p.title()), roff(c.Short))
	if c.Runnable() || c.HasAvailableSubCommands() {
		fmt.Fprintf(&out, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	}
	fmt.Fprintf(&out, ".SH DESCRIPTION\n%s", roffText(cmp.Or(c.Long, c.Short)))
	p.writeOptions(&out)
	if c.Example != "" {
		fmt.Fprintf(&out, ".SH EXAMPLES\n%s", roffBlock(strings.Split(c.Example, "\n")))
	}
	out.WriteString(".SH EXIT STATUS\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&out, ".TP\n%d\n%s\n", e.code, roff(e.meaning))
	}
	p.writeNeighbours(&out)
	_, err := io.WriteString(w, out.String())
	return err
}

// writeOptions lists the flags.
func (p manPage) writeOptions(out *strings.Builder) {
	p.command.InitDefaultHelpFlag()
	out.WriteString(".SH OPTIONS\n")
	p.command.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		names := "\\-\\-" + roff(f.Name)
		if f.Shorthand != "" {
			names = "\\-" + f.Shorthand + ", " + names
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			names += " \\fI" + roff(kind) + "\\fR"
		}
		fmt.Fprintf(out, ".TP\n\\fB%s\n%s\n", names, roff(usage))
	})
}

// writeNeighbours names the pages above and below.
func (p manPage) writeNeighbours(out *strings.Builder) {
	var names []string
	if parent := p.command.Parent(); parent != nil {
		names = append(names, manPage{parent}.title())
	}
	for _, c := range p.command.Commands() {
		if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			names = append(names, manPage{c}.title())
		}
	}
	if len(names) == 0 {
		return
	}
	out.WriteString(".SH SEE ALSO\n")
	for i, n := range names {
		if i > 0 {
			out.WriteString(",\n")
		}
		fmt.Fprintf(out, "\\fB%s\\fR(1)", roff(n))
	}
	out.WriteString("\n")
}

// roff is text in which nothing is a command to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\t", "    ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// roffText turns paragraphs into paragraphs, and keeps the lines of those that
// are indented.
func roffText(text string) string {
	var out strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		if strings.HasPrefix(lines[0], " ") || strings.HasPrefix(lines[0], "\t") {
			out.WriteString(roffBlock(lines))
			continue
		}
		out.WriteString(".PP\n")
		for _, line := range lines {
			out.WriteString(roff(strings.TrimSpace(line)) + "\n")
		}
	}
	return out.String()
}

// roffBlock is lines as they are.
func roffBlock(lines []string) string {
	var out strings.Builder
	out.WriteString(".PP\n.nf\n")
	for _, line := range lines {
		out.WriteString(roff(line) + "\n")
	}
	out.WriteString(".fi\n")
	return out.String()
}
