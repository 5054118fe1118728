package term

import (
	"fmt"
	"strings"
)

// A view is the text of an editor, placed in rows of a screen.
type view struct {
	rows []row
	// The cursor is in row cursorRow, after cursorCell cells.
	cursorRow, cursorCell int
}

// A row is what stands in one row of the screen, and how many cells it takes.
type row struct {
	text  string
	cells int
}

// layout places text in rows of columns cells, each line of it after a prompt:
// first before the first one, more before the others.
func layout(first, more string, text []rune, at, columns int) view {
	var v view
	columns = max(columns, 4)
	line := []rune(first)
	used := cells(line)
	place := func() { v.cursorRow, v.cursorCell = len(v.rows), used }
	finish := func(next string) {
		v.rows = append(v.rows, row{string(line), used})
		line = []rune(next)
		used = cells(line)
	}
	for i, end := 0, 0; i <= len(text); i = end {
		end = max(after(text, i), i+1)
		ends := i == len(text) || text[i] == '\n'
		var piece []rune
		if ends {
			end = i + 1
		} else {
			piece = shown(text[i:end])
		}
		here := at >= i && at < end
		if n := cells(piece); used+n > columns || here && ends && used == columns {
			finish("")
		}
		if here {
			place()
		}
		line = append(line, piece...)
		used += cells(piece)
		if ends {
			finish(more)
		}
	}
	return v
}

// clip keeps at most rows rows, the cursor's among them.
func (v view) clip(rows int) view {
	rows = max(rows, 1)
	if len(v.rows) <= rows {
		return v
	}
	top := min(max(0, v.cursorRow-rows+1), len(v.rows)-rows)
	return view{v.rows[top : top+rows], v.cursorRow - top, v.cursorCell}
}

// A painter knows what it has drawn last, so that it can draw over it.
type painter struct{ last view }

// paint returns what replaces the last view by v.
func (p *painter) paint(v view) string {
	var out strings.Builder
	out.WriteString(p.top(p.last.cursorRow))
	for i, r := range v.rows {
		if i > 0 {
			out.WriteString("\r\n")
		}
		out.WriteString(r.text)
	}
	if up := len(v.rows) - 1 - v.cursorRow; up > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", up)
	}
	out.WriteByte('\r')
	if v.cursorCell > 0 {
		fmt.Fprintf(&out, "\x1b[%dC", v.cursorCell)
	}
	p.last = v
	return out.String()
}

// repaint is paint after the screen has got another width: terminals have then
// broken rows in two that were too long for it.
func (p *painter) repaint(v view, columns int) string {
	up := p.last.cursorCell / max(columns, 1)
	for _, r := range p.last.rows[:min(p.last.cursorRow, len(p.last.rows))] {
		up += max(1, (r.cells+columns-1)/max(columns, 1))
	}
	start := p.top(up)
	p.last = view{}
	return start + p.paint(v)
}

// top moves up rows, and clears the screen from there on.
func (p *painter) top(up int) string {
	if up > 0 {
		return fmt.Sprintf("\x1b[%dA\r\x1b[J", up)
	}
	return "\r\x1b[J"
}
