package secrets

import (
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

// endWhenUnused removes the replaced secrets that have not been used for the given time since their
// replacement was delivered. A secret whose uses are not known stays valid until it expires.
func (p *Plan) endWhenUnused(uses map[string]Use, after time.Duration, now time.Time) {
	if after <= 0 {
		return
	}
	newest := p.Secrets[len(p.Secrets)-1]
	kept := make([]record.ClientSecret, 0, len(p.Secrets))
	for _, s := range p.Secrets[:len(p.Secrets)-1] {
		// A secret can be replaced twice, because a user can restore an old credentials Secret.
		if s.ReplacedAt.Before(newest.CreatedAt) {
			s.ReplacedAt = roundUp(now)
		}
		check := now
		if use, known := uses[s.ID]; known {
			unused := use.Unused(s)
			if unused >= after {
				continue
			}
			check = now.Add(after - unused)
		}
		p.Check = check
		kept = append(kept, s)
	}
	kept = append(kept, newest)
	p.Secrets = kept
}
