// Package beacon shows token servers and operators whether changes of the records reach them.
//
// The beacon is a Secret in the records namespace that the leading operator changes regularly. It has the
// labels of the records, so each watch of the records delivers it, in order with them: a beacon that
// arrives proves that all earlier changes have arrived. If none arrives, a read of the beacon shows
// whether the operator doesn't work, the watch delivers nothing, or the API server lost changes.
package beacon

import (
	"time"

	corev1 "k8s.io/api/core/v1"

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

// Keys of the data.
const (
	timeKey       = "time"
	rolledBackKey = "rolledBackAt"
)

// Content is what the beacon says.
type Content struct {
	// Time is when the beacon was written, according to the operator's clock.
	Time time.Time
	// RolledBackAt is when an operator last found that the API server had been rolled back to an earlier
	// state; zero if never. It survives a change of the leader.
	RolledBackAt time.Time
}

// Labels returns the labels of the Secret.
func Labels() map[string]string {
	return map[string]string{v1beta1.RecordLabel: v1beta1.RecordBeacon, v1beta1.ManagedByLabel: v1beta1.ManagedBy}
}

// Data returns the data of the Secret. Each time must differ, because the API server ignores a write that
// changes nothing.
func (c Content) Data() map[string][]byte {
	data := map[string][]byte{timeKey: []byte(c.Time.UTC().Format(time.RFC3339Nano))}
	if !c.RolledBackAt.IsZero() {
		data[rolledBackKey] = []byte(c.RolledBackAt.UTC().Format(time.RFC3339Nano))
	}
	return data
}

// Read returns what a beacon says. The Secret can be nil. A time that is missing or invalid is zero.
func Read(secret *corev1.Secret) Content {
	if secret == nil {
		return Content{}
	}
	written, _ := time.Parse(time.RFC3339Nano, string(secret.Data[timeKey]))
	rolledBack, _ := time.Parse(time.RFC3339Nano, string(secret.Data[rolledBackKey]))
	return Content{Time: written, RolledBackAt: rolledBack}
}
