// Package progress prints what a program is doing and the time since it started.
package progress

import (
	"fmt"
	"io"
	"time"
)

// Progress prints lines to a writer.
type Progress struct {
	out   io.Writer
	begin time.Time
}

// New returns a Progress that counts from now.
func New(out io.Writer) *Progress { return &Progress{out: out, begin: time.Now()} }

// Say prints a line.
func (p *Progress) Say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// Step prints a line that begins with the seconds since New.
func (p *Progress) Step(format string, args ...any) {
	p.Say("%4.0f s  "+format, append([]any{time.Since(p.begin).Seconds()}, args...)...)
}
