package main

import (
	"fmt"
	"io"
	"time"
)

// progress tells a person what is being done, and how long it has been going on.
type progress struct {
	out   io.Writer
	begin time.Time
}

func newProgress(out io.Writer) *progress { return &progress{out: out, begin: time.Now()} }

// say writes a line.
func (p *progress) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// step writes a line with the time since the beginning.
func (p *progress) step(format string, args ...any) {
	p.say("%4.0f s  "+format, append([]any{time.Since(p.begin).Seconds()}, args...)...)
}
