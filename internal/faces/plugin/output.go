package plugin

import (
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

// print writes a report in the format that the user selected.
func (o *clusterOptions) print(r report) error {
	marshal := map[string]func(any) ([]byte, error){"json": untrusted.MarshalJSON, "yaml": untrusted.MarshalYAML}[o.output]
	if marshal != nil {
		encoded, err := marshal(r)
		if err != nil {
			return err
		}
		_, err = o.streams.Out.Write(encoded)
		return err
	}
	w := terminal.NewWriter(o.streams.Out)
	r.text(w)
	return w.Err()
}

// progress writes a line for people about what a subcommand waits for. It goes to the error stream,
// so that the output contains the result only.
func (o *clusterOptions) progress(format string, args ...any) {
	writeLine(o.streams.ErrOut, format, args...)
}

func writeLine(out io.Writer, format string, args ...any) {
	terminal.NewWriter(out).Line(terminal.Plain, "%s", fmt.Sprintf(format, args...))
}
