// Package terminal formats text for terminals of 80 columns: headings, tables, wrapped paragraphs,
// relative times, and colors if the output is a terminal.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// Width is the number of columns that text is wrapped at.
const Width = 80

// Color is a color of the terminal.
type Color string

// Colors, as SGR parameters (ECMA-48, section 8.3.117).
const (
	Plain  Color = ""
	Bold   Color = "1"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	Faint  Color = "2"
)

// Writer writes formatted text, and makes all of it printable. It remembers the first error, which
// Err returns.
type Writer struct {
	out    io.Writer
	colors bool
	err    error
}

// NewWriter returns a Writer that uses colors if out is a terminal, and the environment variable
// NO_COLOR is unset or empty (https://no-color.org).
func NewWriter(out io.Writer) *Writer {
	out = untrusted.Raw(out)
	file, ok := out.(*os.File)
	return &Writer{
		out:    out,
		colors: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// WithColors returns a Writer that always uses colors.
func WithColors(out io.Writer) *Writer { return &Writer{out: out, colors: true} }

// Err returns the first error of a write.
func (w *Writer) Err() error { return w.err }

func (w *Writer) print(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.out, s)
	}
}

func (w *Writer) color(c Color, s string) string {
	if !w.colors || c == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Line writes a line.
func (w *Writer) Line(c Color, format string, args ...any) {
	w.print(w.color(c, untrusted.Printable(fmt.Sprintf(format, args...))) + "\n")
}

// Heading writes an empty line and a heading.
func (w *Writer) Heading(text string) {
	w.print("\n" + w.color(Bold, untrusted.Printable(text)) + "\n")
}

// Paragraph writes text, indented and wrapped.
func (w *Writer) Paragraph(indent int, c Color, text string) {
	for _, line := range Wrap(text, Width-indent) {
		w.print(strings.Repeat(" ", indent) + w.color(c, line) + "\n")
	}
}

// Commands writes commands. They are indented but never wrapped, so that users can copy them.
func (w *Writer) Commands(indent int, commands []string) {
	for _, command := range commands {
		w.print(strings.Repeat(" ", indent) + untrusted.Printable(command) + "\n")
	}
}

// Row is a row of a table.
type Row struct {
	Color Color
	Cells []string
}

// Table writes rows in aligned columns, indented by two spaces. The header is omitted if it is nil.
func (w *Writer) Table(header []string, rows []Row) {
	if header != nil {
		rows = append([]Row{{Bold, header}}, rows...)
	}
	cells := make([][]string, len(rows))
	for i, row := range rows {
		cells[i] = row.Cells
	}
	// Colors are added afterwards, because they would count as columns.
	for i, line := range w.align(3, cells) {
		w.print("  " + w.color(rows[i].Color, strings.TrimRight(line, " ")) + "\n")
	}
}

// Aligned writes rows in aligned columns without colors. A row with a single cell ends the columns of
// the rows above it.
func (w *Writer) Aligned(rows [][]string) {
	for _, line := range w.align(2, rows) {
		w.print(line + "\n")
	}
}

// align returns a line for each row, with at least gap spaces between the columns.
func (w *Writer) align(gap int, rows [][]string) []string {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = untrusted.Printable(cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush() // a buffer accepts everything
	return strings.Split(b.String(), "\n")[:len(rows)]
}

// Fields writes names and values. Values are wrapped beside their name. Fields without a value are
// omitted.
func (w *Writer) Fields(fields [][2]string) {
	width := 0
	for _, field := range fields {
		if field[1] != "" {
			width = max(width, len(field[0]))
		}
	}
	for _, field := range fields {
		if field[1] == "" {
			continue
		}
		for i, line := range Wrap(field[1], Width-width-4) {
			name := ""
			if i == 0 {
				name = untrusted.Printable(field[0])
			}
			w.print(strings.TrimRight(fmt.Sprintf("  %-*s  %s", width, name, line), " ") + "\n")
		}
	}
}
