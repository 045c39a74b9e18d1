// Package output has what the subcommands of the plugin write: reports for people and for programs, new files, and
// errors that decide the exit code.
package output

import (
	"errors"
	"fmt"
	"io"

	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// Streams are the standard streams of the process.
type Streams struct {
	In          io.Reader
	Out, ErrOut io.Writer
}

// Report is the result of a subcommand. Its JSON form is for programs.
type Report interface {
	// Text writes the report for people.
	Text(w *terminal.Writer)
}

var (
	// ErrUsage means that an argument is invalid.
	ErrUsage = errors.New("invalid arguments")
	// ErrReported makes the process exit with code 1. The output already explains why.
	ErrReported = errors.New("not Ready")
)

// Stdio is the file name of standard input or output.
const Stdio = "-"

// Write writes a report in a format: json, yaml, or text if it is empty.
func Write(out io.Writer, format string, r Report) error {
	marshal := map[string]func(any) ([]byte, error){"json": untrusted.MarshalJSON, "yaml": untrusted.MarshalYAML}[format]
	if marshal != nil {
		encoded, err := marshal(r)
		if err != nil {
			return err
		}
		_, err = out.Write(encoded)
		return err
	}
	w := terminal.NewWriter(out)
	r.Text(w)
	return w.Err()
}

// Line writes a line for people.
func Line(out io.Writer, format string, args ...any) {
	terminal.NewWriter(out).Line(terminal.Plain, "%s", fmt.Sprintf(format, args...))
}
