package untrusted

import (
	"io"
	"strings"
)

// writer makes everything printable, except line breaks.
type writer struct{ out io.Writer }

// NewWriter returns a writer that makes all text printable before it writes it to out, except for
// line breaks. It protects outputs whose code forgets to call Printable. Each call of Write must
// contain whole characters.
func NewWriter(out io.Writer) io.Writer { return writer{Raw(out)} }

func (w writer) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	if _, err := io.WriteString(w.out, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw returns the writer that a writer of NewWriter writes to, and any other writer unchanged. It is
// for binary output, and for code that calls Printable and adds colors.
func Raw(out io.Writer) io.Writer {
	if w, ok := out.(writer); ok {
		return w.out
	}
	return out
}
