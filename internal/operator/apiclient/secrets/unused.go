package secrets

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Use describes when a secret has been used, according to the reports of the token servers.
type Use struct {
	// Last is the latest time at which the secret may have been used.
	Last time.Time
	// Until is the time up to which all uses are known, so that Last is complete. It is not in the future.
	Until time.Time
}

// Unused returns how long a replaced secret has certainly been unused since its replacement was
// delivered.
func (u Use) Unused(s record.ClientSecret) time.Duration {
	return u.Until.Sub(latest(u.Last, s.ReplacedAt))
}

// endWhenUnused drops the replaced secrets that have not been used for the time in the schedule since
// their replacement was delivered, and reports whether there are any. A secret whose uses are not known
// stays valid until it expires.
func (r *rotation) endWhenUnused() bool {
	if r.UnusedFor <= 0 {
		return false
	}
	before := len(r.plan.Secrets)
	r.plan.Secrets = slices.DeleteFunc(r.plan.Secrets, func(s record.ClientSecret) bool {
		if s.Role != record.RoleRetiring {
			return false
		}
		use, known := r.Uses[s.ID]
		r.plan.Check = r.now
		if !known {
			return false
		}
		unused := use.Unused(s)
		r.plan.Check = r.now.Add(r.UnusedFor - unused)
		return unused >= r.UnusedFor
	})
	if len(r.plan.Secrets) == before {
		return false
	}
	r.plan.Step, r.plan.Unfinished, r.plan.Check = StepEndedUnused, true, time.Time{}
	return true
}
