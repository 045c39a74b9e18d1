// Package beacon shows token servers and operators whether changes of the records reach them.
//
// The beacon is a Secret in the records namespace that the leading operator changes regularly. It has the
// label of the records, so each watch of the records delivers it, in order with them: a beacon that
// arrives proves that all earlier changes have arrived. If none arrives, a read of the beacon shows
// whether the operator doesn't work, the watch delivers nothing, or the API server lost changes.
package beacon

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Name is the name of the Secret.
const Name = "beacon"

const (
	// Interval is the time between two changes of the beacon.
	Interval = 10 * time.Second
	// Overdue is how long after the last beacon a process reads it from the API server.
	Overdue = 15 * time.Second
)

// timeKey is the data key of the time at which the beacon was written.
const timeKey = "time"

// Secret returns the beacon of the given time. Each time must differ, because the API server ignores a
// write that changes nothing.
func Secret(namespace string, now time.Time) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(Name, namespace).
		WithLabels(map[string]string{v1beta1.RecordLabel: v1beta1.RecordBeacon, v1beta1.ManagedByLabel: v1beta1.ManagedBy}).
		WithType(corev1.SecretTypeOpaque).
		WithData(map[string][]byte{timeKey: []byte(now.UTC().Format(time.RFC3339Nano))})
}
