package plugin

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

// report is the result of a subcommand. Its JSON form is for programs.
type report interface {
	// text writes the report for people.
	text(w *terminal.Writer)
}

var (
	// errUsage means that an argument is invalid.
	errUsage = errors.New("invalid arguments")
	// errReported makes the process exit with code 1. The output already explains why.
	errReported = errors.New("not Ready")
)

// stdio is the file name of standard input or output.
const stdio = "-"

// writeReport writes a report in a format: json, yaml, or text if it is empty.
func writeReport(out io.Writer, format string, r report) error {
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
	r.text(w)
	return w.Err()
}

func writeLine(out io.Writer, format string, args ...any) {
	terminal.NewWriter(out).Line(terminal.Plain, "%s", fmt.Sprintf(format, args...))
}
