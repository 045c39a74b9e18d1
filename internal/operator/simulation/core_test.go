package simulation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// A new client becomes Ready, and its secret is accepted. A suspension takes effect at all servers.
func TestModel(t *testing.T) {
	run(t, settled(t), everythingHappens, func(w *world) {
		accepted := func() (all []bool) {
			v := w.history.clients[types.NamespacedName{Namespace: team, Name: "billing"}].values
			for _, s := range w.servers {
				all = append(all, s.accepts(realmName, team+".billing", v[len(v)-1].text))
			}
			return all
		}
		expect := func(when, reason string, want bool) {
			t.Helper()
			w.settle()
			if w.violation != nil {
				t.Fatalf("%v\n%s", w.violation, w.text())
			}
			for i, got := range accepted() {
				if got != want {
					t.Errorf("%s: %s accepts the client secret: %t", when, w.servers[i].name, got)
				}
			}
			if got := w.readyReason("billing"); got != reason {
				t.Errorf("%s: the reason of Ready is %q, want %q\n%s", when, got, reason, w.text())
			}
		}
		expect("settled", "Ready", true)
		w.edit("billing", true, "spec", "suspend")
		expect("suspended", "Suspended", false)
		w.edit("billing", nil, "spec", "suspend")
		expect("resumed", "Ready", true)
		w.rotateNow("billing")
		expect("rotated", "Ready", true)
	})
}

// A run depends only on its choices, also if servers die, time out, and join while the API server is down.
func TestRunsAreRepeatable(t *testing.T) {
	start := settled(t)
	for name, path := range map[string]string{
		"dying server": "operator 1 dies and operator 2 leads | a user restricts billing in a way that only the new program knows | server 2's watch of records delivers record of billing | server 1's watch of records delivers record of billing | a user suspends billing | a user requests a new secret of billing | server 2's watch of records delivers record of billing | server 2's watch of records delivers record of billing | server 4 starts with the previous program | server 1 dies and starts again | server 1: APPLY Lease server-1 lands | 16s pass | server 1: APPLY Lease server-1 lands (4) | server 2's watch of records delivers record of billing",
		"timeouts":     "16s pass | a user requests a new secret of billing | server 1's watch of records delivers record of billing | server 2's watch of records delivers record of billing | 16s pass",
		"outage":       "server 3 starts | the API server is down for 310s, and operator 2 leads | a user requests a new secret of billing",
	} {
		t.Run(name, func(t *testing.T) {
			var first string
			for range 20 {
				run(t, start, themes["servers"], func(w *world) {
					w.settle()
					for choice := range strings.SplitSeq(path, " | ") {
						if !w.take(choice) {
							t.Fatalf("there is no choice %q after\n%s", choice, w.text())
						}
					}
					for _, c := range w.choices() {
						w.note("choice: %s", c.name)
					}
					again := fmt.Sprintf("%s\nhash %x", w.text(), w.hash())
					if first == "" {
						first = again
					}
					if diff := cmp.Diff(first, again); diff != "" {
						t.Fatalf("the same choices lead to another run (-first +again):\n%s", diff)
					}
				})
			}
		})
	}
}
