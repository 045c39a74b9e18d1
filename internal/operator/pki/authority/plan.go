package authority

import (
	"crypto/x509"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Step is what a plan does to the CA.
type Step string

const (
	// Generated means that there was no CA.
	Generated Step = "Generated"
	// Published means that clients start to trust the next CA.
	Published Step = "Published"
	// Switched means that the next CA, which was published, signs from now on.
	Switched Step = "Switched"
	// Expired means that the CA has expired, and that another one signs immediately.
	Expired Step = "Expired"
	// NotYetValid means that the CA isn't valid yet, because the clock was wrong when it was generated, so
	// that another one must sign immediately.
	NotYetValid Step = "NotYetValid"
	// Renamed means that the hosts have changed, so that another CA must sign immediately.
	Renamed Step = "Renamed"
)

// Policy configures the life of the CA.
type Policy struct {
	// Hosts are the names of the token servers.
	Hosts []string
	// Lifetime is the lifetime of a generated CA.
	Lifetime time.Duration
	// Overlap is how long the next CA is published before it signs.
	Overlap time.Duration
	// ServingLifetime is the lifetime of serving certificates.
	ServingLifetime time.Duration
}

// PolicyOf returns the policy of an instance with a managed CA. Its durations are scaled by
// testing.speedUp.
func PolicyOf(i *config.Instance) Policy {
	lifetime := i.TLS.Managed.Lifetime.Duration
	return Policy{
		Hosts:           []string{i.Host(), i.ServiceHost(), i.ServiceHost() + "." + i.ClusterDomain, config.TokenServiceName},
		Lifetime:        i.Scaled(lifetime),
		Overlap:         i.Scaled(i.TLS.Managed.Overlap.Duration),
		ServingLifetime: i.Scaled(min(pki.MaxServingLifetime, lifetime/4)),
	}
}

// Plan is the CA that an instance must have now.
type Plan struct {
	*Authority

	// Step is the change that matters to users; empty if there is none.
	Step Step
	// Next is the time at which the plan changes.
	Next time.Time
}

// Make plans the life of the CA. current is the CA in the Secret; nil if there is none. Make doesn't
// change it. Planning twice changes nothing.
//
// The next CA is published for the overlap, and then signs. The private key of the old CA is dropped
// at this moment, and its certificate when it expires. A late plan publishes first too, and gives
// clients as much of the overlap as the old CA is still valid.
//
// A CA that has expired, a generated one that isn't valid yet, and one whose name constraints don't
// permit the hosts, is replaced immediately.
//
// The error wraps ErrUnusable, or it comes from random.
func Make(now time.Time, current *Authority, policy Policy, random io.Reader) (Plan, error) {
	now = now.UTC().Truncate(time.Second) // the precision of certificates
	var a Authority
	if current != nil {
		a = *current
	}
	step, err := a.advance(now, policy, random)
	if err != nil {
		return Plan{}, err
	}
	a.tidy(now)
	return Plan{Authority: &a, Step: step, Next: a.next(now, policy)}, nil
}

// advance takes at most one step.
func (a *Authority) advance(now time.Time, policy Policy, random io.Reader) (Step, error) {
	if a.Next != nil && !usable(a.Next.Leaf, now, policy) {
		a.Next = nil
	}
	if a.Current == nil {
		return Generated, a.replace(now, policy, random)
	}
	leaf := a.Current.Leaf
	if err := a.Check(now, policy); err != nil {
		return "", err
	}
	switch {
	case !pki.Permits(leaf, policy.Hosts):
		return Renamed, a.replace(now, policy, random)
	case expired(leaf, now):
		return Expired, a.replace(now, policy, random)
	case now.Before(leaf.NotBefore):
		return NotYetValid, a.replace(now, policy, random)
	case a.Next == nil && !now.Before(a.publishAt(policy)):
		var err error
		a.Next, err = pki.NewCA(policy.Hosts, policy.Lifetime, now, random)
		return Published, err
	case a.Next != nil && !now.Before(a.SwitchAt(policy)):
		return Switched, a.replace(now, policy, random)
	}
	return "", nil
}

// Check returns an error that wraps ErrUnusable if the CA can't sign, and must not be replaced because a user
// provided it.
func (a *Authority) Check(now time.Time, policy Policy) error {
	leaf := a.Current.Leaf
	switch {
	case pki.IsGenerated(leaf):
		return nil
	case !pki.Permits(leaf, policy.Hosts):
		return fmt.Errorf("%w: the name constraints of the certificate in Secret %s permit only %v, not all of %v; replace it, or delete the Secret to generate a new CA",
			ErrUnusable, SecretName, leaf.PermittedDNSDomains, policy.Hosts)
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%w: the CA in Secret %s is not valid before %s; check it, and the clock of the node",
			ErrUnusable, SecretName, leaf.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// replace makes the next CA sign, or a new one if there is none.
func (a *Authority) replace(now time.Time, policy Policy, random io.Reader) error {
	if a.Next == nil {
		var err error
		if a.Next, err = pki.NewCA(policy.Hosts, policy.Lifetime, now, random); err != nil {
			return err
		}
	}
	if a.Current != nil {
		a.Previous = slices.Concat(a.Current.Chain, a.Previous)
	}
	a.Current, a.Next = a.Next, nil
	return nil
}

// tidy removes certificates from Previous that no client needs: those that have expired or are not ones
// of a CA, and duplicates.
func (a *Authority) tidy(now time.Time) {
	kept := a.Previous
	a.Previous = nil
	for _, c := range kept {
		if !expired(c, now) && pki.Signs(c) && !slices.ContainsFunc(a.Bundle(), c.Equal) {
			a.Previous = append(a.Previous, c)
		}
	}
}

// next returns the earliest time after now at which the CA changes.
func (a *Authority) next(now time.Time, policy Policy) time.Time {
	times := []time.Time{expiry(a.Current.Leaf)}
	for _, c := range a.Previous {
		times = append(times, expiry(c))
	}
	if a.Next == nil {
		times = append(times, a.publishAt(policy))
	} else {
		times = append(times, a.SwitchAt(policy))
	}
	if next := timestamp.Next(now, times...); !next.IsZero() {
		return next
	}
	return now
}

// publishAt returns the time at which the successor of a CA is published.
func (a *Authority) publishAt(policy Policy) time.Time {
	reserve, overlap := a.margins(policy)
	return timestamp.RoundUp(a.Current.Leaf.NotAfter.Add(-reserve - overlap))
}

// SwitchAt returns the time at which the next CA signs. There must be one. It is early enough that each serving certificate
// of the old one can be used until it expires. If the next CA was published late, it is later, because
// clients need the overlap more: at the end of the overlap, or after half of the time that is left.
func (a *Authority) SwitchAt(policy Policy) time.Time {
	reserve, overlap := a.margins(policy)
	end, published := a.Current.Leaf.NotAfter, a.Next.Leaf.NotBefore.Add(pki.Backdate)
	at := published.Add(max(time.Second, min(overlap, end.Sub(published)/2)))
	return timestamp.RoundUp(timestamp.Latest(at, end.Add(-reserve)))
}

// margins returns how long before a CA expires its successor signs, and how long before that it is
// published. Both are short if a user's CA lives shorter than generated ones.
func (a *Authority) margins(policy Policy) (reserve, overlap time.Duration) {
	leaf := a.Current.Leaf
	quarter := leaf.NotAfter.Sub(leaf.NotBefore) / 4
	return min(policy.ServingLifetime, quarter), min(policy.Overlap, quarter)
}

// usable reports whether a CA can sign for the hosts now.
func usable(c *x509.Certificate, now time.Time, policy Policy) bool {
	return !expired(c, now) && !now.Before(c.NotBefore) && pki.Permits(c, policy.Hosts)
}

// expiry returns the time from which a certificate is no longer valid. It is valid throughout the
// second in which it expires.
func expiry(c *x509.Certificate) time.Time { return c.NotAfter.Add(time.Second) }

func expired(c *x509.Certificate, now time.Time) bool { return !now.Before(expiry(c)) }
