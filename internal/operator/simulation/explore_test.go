package simulation

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var replay = flag.String("choices", "", `choices that TestExplore repeats instead of a search, as a counterexample prints them: "START/THEME: CHOICE | CHOICE"`)

// starts are the states from which the exploration starts, and choices that lead to one that isn't in the API
// alone.
var starts = map[string]struct {
	state func(*testing.T) state
	first []string
}{
	"new":       {state: realmOnly},
	"settled":   {state: settled},
	"rotating":  {state: settled, first: []string{rotates("billing").name}},
	"overlap":   {state: overlapping},
	"suspended": {state: suspended},
	"restored":  {state: restoredState},
	"no lists":  {state: withoutLists},
}

// themes are groups of choices. All choices together have too many combinations for a search; TestRandomRuns
// combines them.
var themes = map[string]scope{
	// A new leader with caches of different ages.
	"caches": {
		lags: func(s *stream) bool {
			return s.owner.name == "operator 2" && slices.Contains([]string{"ApiClients", "credentials", "records"}, s.what)
		},
		held:    noRequest,
		actions: []action{creates("billing"), suspends("billing"), resumes("billing"), rotates("billing"), moves, leadsToo},
	},
	// Writes that land late, or after the death of their sender.
	"writes": {
		lags:    nothing,
		held:    func(r *request) bool { return r.from.server == nil && !r.reads() && r.resource == secretResource },
		actions: []action{creates("billing"), suspends("billing"), resumes("billing"), rotates("billing"), moves, leadsToo, revokes("billing")},
	},
	// Token servers that lag, join, and are forgotten.
	"servers": {
		lags:    func(s *stream) bool { return s.owner.server != nil },
		held:    func(r *request) bool { return r.from.server != nil && !r.reads() },
		actions: []action{creates("billing"), rotates("billing"), suspends("billing"), joins, joinsPrevious, restricts("billing"), restarts, passes(16*time.Second, 3), moves, outage},
	},
	// Indexes that clients get and give up while writes land late and a cache lags.
	"indexes": {
		lags: func(s *stream) bool {
			return s.owner.name == "operator 2" && s.what == "records" || s.owner.name == "server 2"
		},
		held: writes("secrets", recordsNamespace, "operator 1", "operator 2"),
		actions: []action{
			creates("orders"), deletes("billing"), revokesTokens("billing"), revokesRealmTokens, setsLists(true), setsLists(false), restoresRealm, rollsBack,
			passes(retirement, 1), moves, leadsToo,
		},
	},
	// Users who lower times, release a client ID, or delete records.
	"times": {
		lags: func(s *stream) bool {
			return s.owner.name == "operator 2" && s.what == "records" || s.owner.name == "server 2"
		},
		held:   writes("secrets", recordsNamespace, "operator 1", "operator 2"),
		clocks: differentClocks,
		actions: []action{
			releases("billing"), claims("orders"), losesRecord("billing"), revokesTokens("billing"), revokesLater("billing"), removesTime("billing"),
			setsLifetime(longLifetime), setsLifetime(shortLifetime), passes(retirement, 1), moves,
		},
	},
	// Users who take secrets away, while a write is in flight or a cache lags.
	"users": {
		lags:    watches("operator 1", "credentials"),
		held:    writes("secrets", team, "operator 1", "operator 2"),
		actions: []action{creates("billing"), revokes("billing"), overwrites("billing"), rotates("billing"), moves, passes(overlap, 1)},
	},
}

// maxDepth is deeper than any time allows.
const maxDepth = 20

// TestExplore searches from each start state with each theme, as deep as the time allows.
func TestExplore(t *testing.T) {
	if *replay != "" {
		name, choices, _ := strings.Cut(*replay, ": ")
		start, theme, _ := strings.Cut(name, "/")
		run(t, starts[start].state(t), themes[theme], func(w *world) {
			w.settle()
			for _, choice := range append(starts[start].first, strings.Split(choices, " | ")...) {
				w.take(choice)
			}
			t.Logf("%v\n%s", w.violation, w.text())
		})
		return
	}
	taken, tokens := 0, 0
	t.Cleanup(func() {
		if !t.Failed() && (taken == 0 || tokens == 0) {
			t.Errorf("the runs are empty: %d actions were taken, and %d tokens issued", taken, tokens)
		}
	})
	share := *exploreTime / time.Duration(len(starts)*len(themes))
	for start, begin := range starts {
		for theme, choices := range themes {
			t.Run(start+"/"+theme, func(t *testing.T) {
				state, deadline := begin.state(t), time.Now().Add(share)
				s := &search{start: state, first: begin.first, scope: choices, depth: maxDepth, stop: func() bool { return time.Now().After(deadline) }}
				if found := s.find(t); found != nil {
					t.Errorf("%s/%s: %v", start, theme, found)
				}
				tokens += s.tokens
				for _, n := range s.taken {
					taken += n
				}
				t.Logf("%d runs, %d states at depth %d", s.runs, len(s.seen), s.depth)
			})
		}
	}
}
