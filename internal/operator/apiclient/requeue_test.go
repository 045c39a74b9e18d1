package apiclient

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// A release that takes effect between the reads and the decision isn't part of the decision, so the client is
// reconciled again.
func TestReleaseDuringReconcileIsNotMissed(t *testing.T) {
	annotations := map[string]string{v1beta1.ReleaseAnnotation: now.Format(time.RFC3339)}
	for name, release := range map[string]func(*observed){
		"of the client": func(s *observed) { s.client.Annotations = annotations },
		"of the Realm":  func(s *observed) { s.realm.Annotations, s.realm.Spec.Grants = annotations, nil },
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(release, func(s *observed) { s.at = now.Add(-time.Millisecond) })
			decidedAt := now.Add(time.Millisecond)
			d := decided(t, &seen, decidedAt)
			if after := requeueAfter(&seen, d); d.releaseID || after <= 0 || after > time.Millisecond {
				t.Errorf("released: %t, reconciled again after %s, want immediately", d.releaseID, after)
			}
		})
	}
}
