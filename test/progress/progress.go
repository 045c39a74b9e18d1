// Package progress tells a person what a program is doing, and how long it has been at it.
package progress

import (
	"fmt"
	"io"
	"time"
)

// Progress writes lines for a person.
type Progress struct {
	out   io.Writer
	begin time.Time
}

// New starts the clock.
func New(out io.Writer) *Progress { return &Progress{out: out, begin: time.Now()} }

// Say writes a line.
func (p *Progress) Say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// Step writes a line with the seconds since the beginning.
func (p *Progress) Step(format string, args ...any) {
	p.Say("%4.0f s  "+format, append([]any{time.Since(p.begin).Seconds()}, args...)...)
}
