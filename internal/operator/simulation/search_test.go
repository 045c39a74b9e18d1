package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// explore is how long TestExplore and the random runs take: a few seconds in each test run, an hour every
// night.
var exploreTime = flag.Duration("explore", exploreDefault(), "how long to explore states that no directed search covers; also $EXPLORE")

// shortExploration is how long the exploration takes if nothing else is requested. From longExploration on,
// it looks for something new each time.
const (
	shortExploration = 6 * time.Second
	longExploration  = 10 * time.Minute
)

func exploreDefault() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("EXPLORE")); err == nil {
		return d
	}
	return shortExploration
}

// search is a depth-first search. A path is a sequence of choices; to go on from a state, the search runs all
// of its choices again from the start state, because running processes can't be copied.
type search struct {
	start state
	// first are choices that each run takes first.
	first []string
	scope scope
	depth int
	// stop reports whether the search must end early; nil: never.
	stop func() bool

	seen map[uint64]int // the number of choices that were left when a state was reached
	path []frame
	runs int
	// taken counts how often an action was taken, and tokens those that servers could issue. A search without them
	// shows nothing.
	taken  map[string]int
	tokens int
}

// frame is a state on the path: its choices, and the one that the path takes.
type frame struct {
	choices []string
	next    int
}

// counterexample is a run that violates an invariant.
type counterexample struct {
	err     error
	choices []string
	trace   string
}

func (c *counterexample) String() string {
	return fmt.Sprintf("%v\nchoices: %s\n%s", c.err, strings.Join(c.choices, " | "), c.trace)
}

// find returns the shortest counterexample, or nil if there is none within the depth, or none before the
// search must end.
func (s *search) find(t *testing.T) *counterexample {
	t.Helper()
	limit := s.depth
	s.taken = map[string]int{}
	for s.depth = 1; s.depth <= limit; s.depth++ {
		s.seen, s.path = map[uint64]int{}, nil
		for more := true; more; more = s.backtrack() {
			if found := s.run(t); found != nil {
				return found
			}
			if s.stop != nil && s.stop() {
				return nil
			}
		}
	}
	return nil
}

// run follows the path and extends it up to the depth, or to a state from which all has been seen.
func (s *search) run(t *testing.T) (found *counterexample) {
	t.Helper()
	s.runs++
	run(t, s.start, s.scope, func(w *world) {
		defer func() {
			s.tokens += w.history.indexes.total
			for name, n := range w.used {
				s.taken[name] += n
			}
		}()
		w.settle()
		for _, choice := range s.first {
			w.take(choice)
		}
		for _, f := range s.path {
			if w.violation == nil && !w.take(f.choices[f.next]) {
				t.Fatalf("the run isn't repeatable: there is no choice %q after\n%s", f.choices[f.next], w.text())
			}
		}
		for w.violation == nil && len(s.path) < s.depth {
			left := s.depth - len(s.path)
			hash := w.hash()
			if s.seen[hash] >= left {
				return
			}
			s.seen[hash] = left
			f := frame{}
			for _, c := range w.choices() {
				f.choices = append(f.choices, c.name)
			}
			if len(f.choices) == 0 {
				return
			}
			s.path = append(s.path, f)
			w.take(f.choices[0])
		}
		if w.violation != nil {
			found = &counterexample{err: w.violation, trace: w.text()}
			for _, f := range s.path {
				found.choices = append(found.choices, f.choices[f.next])
			}
		}
	})
	return found
}

// backtrack moves to the next path, and reports whether there is one.
func (s *search) backtrack() bool {
	for len(s.path) > 0 {
		last := &s.path[len(s.path)-1]
		if last.next++; last.next < len(last.choices) {
			return true
		}
		s.path = s.path[:len(s.path)-1]
	}
	return false
}
