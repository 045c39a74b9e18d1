package simulation

import (
	"testing"

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
