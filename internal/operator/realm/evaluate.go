package realm

import (
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/issuerkeys"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Objects contains everything that a decision about a Realm depends on.
type Objects struct {
	Realm *v1alpha1.Realm
	// Record is the Realm's record, which all token servers serve; nil if there is none yet.
	Record *corev1.Secret
	// Fetched contains the keys of trusted issuers, as returned by the function Fetched.
	Fetched map[string]issuerkeys.State
}

// Evaluation is a decision about a Realm.
type Evaluation struct {
	// Record is the desired record; nil leaves the record unchanged, even if there is none.
	Record *record.Realm
	// Fetch lists the trusted issuers whose keys are fetched.
	Fetch []issuerkeys.Issuer
	// Status is the status after all token servers serve the record.
	Status v1alpha1.RealmStatus
	// RequeueAfter is the time until the decision may change although the objects do not; zero if it
	// never does.
	RequeueAfter time.Duration
}

// Evaluate decides about a Realm as Reconcile does, but without a cluster. It is a pure function, and
// fails only if the random source does.
func Evaluate(o Objects, instance *config.Instance, now time.Time, random io.Reader) (Evaluation, error) {
	seen := observed{realm: o.Realm, record: o.Record, fetched: o.Fetched}
	if o.Record != nil {
		seen.state = acknowledgement.Acknowledged
	}
	d, err := decide(seen, instance, now, random)
	if err != nil {
		return Evaluation{}, fmt.Errorf("generating keys for Realm %q: %w", o.Realm.Name, err)
	}
	var state *acknowledgement.State
	if o.Record != nil || d.record != nil {
		state = new(acknowledgement.Acknowledged)
	}
	e := Evaluation{Record: d.record, Fetch: d.fetch, Status: status(o.Realm, d, state, instance, now)}
	if !d.next.IsZero() {
		e.RequeueAfter = d.next.Sub(now)
	}
	return e, nil
}
