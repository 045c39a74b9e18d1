package simulation

import (
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

// A run depends only on its choices.
func TestRunsAreRepeatable(t *testing.T) {
	start := settled(t)
	faults := scope{lags: watches("server 2", "records"), held: writes("leases", recordsNamespace, "server 2", "server 3"), actions: []action{rotates("billing"), outage, joins}}
	var first string
	for range 3 {
		run(t, start, faults, func(w *world) {
			w.settle()
			for choices := w.choices(); len(choices) > 0; choices = w.choices() {
				w.take(choices[len(choices)-1].name)
			}
			if first == "" {
				first = w.text()
			}
			if diff := cmp.Diff(first, w.text()); diff != "" {
				t.Fatalf("the same choices lead to another run (-first +again):\n%s", diff)
			}
		})
	}
}
