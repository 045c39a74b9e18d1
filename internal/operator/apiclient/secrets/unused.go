package secrets

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Use describes when a secret has been used, according to the reports of the token servers.
type Use struct {
	// Last is the latest time at which the secret may have been used.
	Last time.Time
	// Until is the time up to which all uses are known, so that Last is complete. It is not in the future.
	Until time.Time
	// Confirmed reports that this is according to the API server and not to a cache.
	Confirmed bool
}

// unused returns how long a replaced secret has certainly been unused since its replacement was
// delivered.
func (u Use) unused(s record.ClientSecret) time.Duration {
	return u.Until.Sub(timestamp.Latest(u.Last, s.ReplacedAt))
}

// expireUnused drops the replaced secrets that have not been used for the time in the schedule since
// their replacement was delivered, and reports whether there are any. A secret whose uses are not known
// stays valid until it expires.
func (r *rotation) expireUnused() bool {
	if r.UnusedFor <= 0 {
		return false
	}
	before := len(r.plan.Secrets)
	r.plan.Secrets = slices.DeleteFunc(r.plan.Secrets, func(s record.ClientSecret) bool {
		if s.Role != record.RoleRetiring {
			return false
		}
		use, known := r.Uses[s.ID]
		if known && use.unused(s) >= r.UnusedFor && !r.Unconfirmed {
			r.plan.ConfirmUses = r.plan.ConfirmUses || !use.Confirmed
			return use.Confirmed
		}
		check := r.now
		if known {
			check = r.now.Add(r.UnusedFor - use.unused(s))
		}
		if r.plan.Check.IsZero() || check.Before(r.plan.Check) {
			r.plan.Check = check
		}
		return false
	})
	if len(r.plan.Secrets) == before {
		return false
	}
	r.plan.Step, r.plan.Unfinished, r.plan.Check = StepExpireUnused, true, time.Time{}
	return true
}
