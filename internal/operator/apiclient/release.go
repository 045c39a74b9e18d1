package apiclient

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// reacquireDelay is how long a client that has released its client ID doesn't acquire it again. Another client that
// waits for the client ID acquires it immediately.
const reacquireDelay = time.Minute

// requestedRelease returns the time in the release annotation of an object; zero if there is no valid one.
func requestedRelease(of client.Object) time.Time {
	at, err := time.Parse(time.RFC3339, of.GetAnnotations()[v1beta1.ReleaseAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// ownRelease returns the time up to which the ApiClient itself releases what it holds; zero if it doesn't, or
// not yet.
func (seen *request) ownRelease() time.Time {
	if at := requestedRelease(seen.client); !at.After(seen.at) {
		return at
	}
	return time.Time{}
}

// releaseTime returns the time up to which the client must release what it holds; zero if it needn't. A
// Realm releases only clients that no grant covers.
func (seen *request) releaseTime() time.Time {
	until := seen.ownRelease()
	if seen.realm == nil {
		return until
	}
	if at := requestedRelease(seen.realm); at.After(until) && !at.After(seen.at) {
		if c := covered(seen); !c.Covers() {
			return at
		}
	}
	return until
}

// acquiredBy reports whether a record was created up to the given time.
func acquiredBy(secret *corev1.Secret, until time.Time) bool {
	return secret != nil && !until.IsZero() && !secret.CreationTimestamp.After(until)
}

// clientIDNotReleased doesn't accept a client that has just released its client ID. One that has acquired it again
// stays accepted: an operator whose clock is behind must not disable what another one has enabled.
func (seen *observed) clientIDNotReleased() *condition.Result {
	at := seen.ownRelease()
	acquired := seen.recordSecret != nil && !acquiredBy(seen.recordSecret, at)
	if at.IsZero() || acquired || !seen.at.Before(at.Add(reacquireDelay)) {
		return nil
	}
	return notReady(v1beta1.ReasonClientIDReleased, "The client released its client ID %q at %s. Another client can acquire it. If none does, this client acquires it again at %s.",
		seen.client.EffectiveClientID(), timestamp.Format(at), timestamp.Format(at.Add(reacquireDelay)))
}

// releaseTimes returns the times at which a release takes effect, and at which the client may acquire its client ID again.
func (seen *request) releaseTimes() []time.Time {
	own := requestedRelease(seen.client)
	times := []time.Time{own, own.Add(reacquireDelay)}
	if seen.realm != nil {
		times = append(times, requestedRelease(seen.realm))
	}
	return times
}

// releaseNote is a sentence about a release annotation that is not a time; empty if there is none.
func releaseNote(of client.Object) string {
	if _, ok := of.GetAnnotations()[v1beta1.ReleaseAnnotation]; !ok || !requestedRelease(of).IsZero() {
		return ""
	}
	return " The annotation " + v1beta1.ReleaseAnnotation + " has no effect, because it is not a time in RFC 3339 format."
}
