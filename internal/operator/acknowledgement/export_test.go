package acknowledgement

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Handler returns the event handler that Watch adds to the Lease informer.
func (t *Tracker) Handler() toolscache.ResourceEventHandler { return leaseHandler{t} }

// Members returns a function that checks the token servers once, as the leader does every few seconds.
func (t *Tracker) Members(c client.Client, system string, lost Lost) (check func(context.Context)) {
	return (&members{tracker: t, client: c, system: system, lost: lost, collected: func() {}}).check
}
