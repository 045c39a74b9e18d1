package authority

import (
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

// Policy configures the life of the CA.
type Policy struct {
	// Hosts are the names of the token servers.
	Hosts []string
	// Lifetime is the lifetime of a generated CA.
	Lifetime time.Duration
	// Overlap is how long the next CA is published before it signs, at most an eighth of Lifetime. While
	// credentials Secrets don't contain it, it waits for up to twice this time.
	Overlap time.Duration
	// ServingLifetime is the lifetime of serving certificates.
	ServingLifetime time.Duration
}

// PolicyOf returns the policy of an instance with a managed CA. Its durations are scaled by
// testing.speedUp.
func PolicyOf(i *config.Instance) Policy {
	lifetime := i.TLS.Managed.Lifetime.Duration
	return Policy{
		Hosts:           []string{i.Host(), i.ServiceHost(), i.ServiceHost() + ".cluster.local", config.TokenServiceName},
		Lifetime:        i.Scaled(lifetime),
		Overlap:         i.Scaled(i.TLS.Managed.Overlap.Duration),
		ServingLifetime: i.Scaled(min(servingcert.MaxLifetime, lifetime/4)),
	}
}

// publishAt returns the time at which the successor of a CA is published. It is early enough that
// each serving certificate of the CA can be used until it expires, even if the successor signs only
// at the deadline. A CA of a user is used for as long as possible.
func (p Policy) publishAt(a *Authority) time.Time {
	reserve := p.ServingLifetime
	if !certificate.IsGenerated(a.Current.Leaf) {
		reserve = p.reserve()
	}
	return roundUp(a.Current.Leaf.NotAfter.Add(-2*p.Overlap - reserve))
}

// reserve is how long before a CA expires its successor must sign.
func (p Policy) reserve() time.Duration { return p.Overlap / 4 }

// MoveAt returns the time at which the next CA may sign if every credentials Secret contains it, and
// the deadline at which it signs in any case. If a late plan published the next CA, both can be
// earlier, so that serving certificates don't expire. They are always later than the publication, and
// the next CA is valid.
func (p Policy) MoveAt(a *Authority) (at, deadline time.Time) {
	earliest := a.PublishedAt.Add(time.Second) // the precision of the time in the Secret
	if a.Next.Leaf.NotBefore.After(earliest) {
		earliest = a.Next.Leaf.NotBefore
	}
	latest := a.Current.Leaf.NotAfter.Add(-p.reserve())
	within := func(t time.Time) time.Time {
		if t.After(latest) {
			t = latest
		}
		if t.Before(earliest) {
			t = earliest
		}
		return roundUp(t)
	}
	return within(a.PublishedAt.Add(p.Overlap)), within(a.PublishedAt.Add(2 * p.Overlap))
}

// roundUp rounds t up to a whole second, the precision of certificates and plans.
func roundUp(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t
}
