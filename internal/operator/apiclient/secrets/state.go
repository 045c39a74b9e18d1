package secrets

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Facts describes the observed secrets of one client.
type Facts struct {
	// Recorded are the secrets in the client's record, oldest first. It is empty if the record was
	// written for a different Realm.
	Recorded []record.ClientSecret
	// Delivered are the well-formed values in the client's credentials Secret, under any key.
	Delivered []string
	// Pending is the plaintext of the newest recorded secret until it is delivered. It is empty if
	// no secret is pending, or if the process that generated it has exited.
	Pending string
	// Acknowledged reports whether every live token server serves Recorded.
	Acknowledged bool
	// Uses contains the known uses of recorded secrets, by the ID of the secret. Only a schedule with
	// UnusedFor needs it.
	Uses map[string]Use
	// Restored are the secrets of a backup that are accepted in addition to Recorded.
	Restored []record.ClientSecret
}

// State is the state of a client's secrets.
type State string

// States of a client's secrets.
const (
	// None means that no workload has a valid secret.
	None State = "None"
	// Announced means that a pending secret is recorded alongside the active one. It is delivered
	// once every live token server accepts it.
	Announced State = "Announced"
	// Lost means that the process that generated the newest secret exited before delivering it.
	Lost State = "Lost"
	// Overlapping means that an older secret is still valid alongside the active one.
	Overlapping State = "Overlapping"
	// Settled means that the active secret is the only one.
	Settled State = "Settled"
)

// View is the state of a client's secrets at one point in time. The indexes refer to Valid; -1
// means none.
type View struct {
	State State
	// Valid are the recorded secrets that have not expired, oldest first.
	Valid []record.ClientSecret
	// Active is the secret that workloads use.
	Active int
	// Delivered is the newest secret that the credentials Secret contains.
	Delivered int
	// Plaintext is the plaintext of Delivered; empty if there is none.
	Plaintext string
	// External is the secret that was provided or listed in the spec and has not been replaced.
	// If there are several, it is the one that expires last.
	External int
	// Pending reports whether the newest secret is pending.
	Pending bool
}

// Look derives the view at the given time. No other code derives the state.
func Look(f Facts, now time.Time) View {
	v := View{Valid: valid(f.Recorded, now)}
	newest := len(v.Valid) - 1
	v.Plaintext, v.Delivered = delivered(f.Delivered, v.Valid)
	v.External = external(v.Valid)
	v.Pending = newest >= 0 && isGenerated(v.Valid[newest], f.Pending)

	v.Active = v.Delivered
	if v.Delivered < newest && v.External >= 0 {
		v.Active = v.External
	}
	switch {
	case v.Active < 0:
		v.State = None
	case v.Pending && v.Delivered < newest:
		v.State = Announced
	case v.Active < newest && v.Valid[newest].Source == "":
		v.State = Lost
	case newest > 0:
		v.State = Overlapping
	default:
		v.State = Settled
	}
	return v
}

// Conclusive reports whether a stale read of the credentials Secret cannot affect the plan: the
// Secret contains the newest secret, or that secret is still pending. Otherwise, a cached Secret
// must be read again from the API server.
func (v View) Conclusive() bool {
	return v.Delivered >= 0 && (v.Delivered == len(v.Valid)-1 || v.Pending)
}

// valid returns the secrets that have not expired.
func valid(secrets []record.ClientSecret, now time.Time) []record.ClientSecret {
	return slices.DeleteFunc(slices.Clone(secrets), func(s record.ClientSecret) bool {
		return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt)
	})
}

// delivered returns the index of the newest secret that is among the values, and its plaintext.
func delivered(values []string, secrets []record.ClientSecret) (plaintext string, index int) {
	index = -1
	for _, value := range values {
		for i := index + 1; i < len(secrets); i++ {
			if isGenerated(secrets[i], value) {
				plaintext, index = value, i
			}
		}
	}
	return plaintext, index
}

// external returns the index of the external secret that expires last, or -1.
func external(secrets []record.ClientSecret) int {
	last := -1
	for i, s := range secrets {
		if s.Source != "" && (last < 0 || expiresLater(s, secrets[last])) {
			last = i
		}
	}
	return last
}

// expiresLater reports whether a expires after b. a must be newer than b. If neither expires,
// expiresLater returns true.
func expiresLater(a, b record.ClientSecret) bool {
	return a.ExpiresAt.IsZero() || !b.ExpiresAt.IsZero() && b.ExpiresAt.Before(a.ExpiresAt)
}
