package authority

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

// Step is what a plan does to the CA.
type Step string

const (
	// Created means that there was no CA. If clients trust others, Previous contains them.
	Created Step = "Created"
	// Adopted means that a user replaced the CA.
	Adopted Step = "Adopted"
	// Published means that clients start to trust the next CA.
	Published Step = "Published"
	// Moved means that the next CA signs from now on.
	Moved Step = "Moved"
	// Forced means that the next CA signs from now on, although credentials Secrets don't contain it.
	Forced Step = "Forced"
	// Expired means that a CA has expired, and that another one signs immediately.
	Expired Step = "Expired"
	// NotYetValid means that the CA isn't valid yet, because the clock was wrong when it was generated, so
	// that another one must sign immediately.
	NotYetValid Step = "NotYetValid"
	// Renamed means that the hosts have changed, so that another CA must sign immediately.
	Renamed Step = "Renamed"
)

// Facts are what a plan depends on, in addition to the CA.
type Facts struct {
	// Serving is the serving certificate; nil if there is none.
	Serving *x509.Certificate
	// Published contains the certificates that clients trusted when Serving was written.
	Published []*x509.Certificate
	// Outdated is the number of credentials Secrets that lack the CA or the next one.
	Outdated int
}

// Plan is the CA that an instance must have now.
type Plan struct {
	*Authority

	// Steps are the changes that matter to users, in order. After Adopted, there can be one more.
	Steps []Step
	// Next is the time at which the plan changes if the facts don't. If credentials Secrets are
	// outdated, it is the deadline.
	Next time.Time
}

// Make plans the life of the CA. current is the CA in the Secret; nil if there is none. Make doesn't
// change it. Planning twice changes nothing.
//
// A successor is generated and published early enough that it can replace the CA before the CA
// expires. It signs after it has been published for the overlap and every credentials Secret contains
// it, and in any case at the deadline. Both CAs sign the other one, so until the old CA expires,
// clients that trust only one of them accept every serving certificate. The private key of the old CA
// is dropped when its successor signs, and its certificate when it expires.
//
// A late plan catches up in the same order. An expired CA, a generated one that isn't valid yet, and one
// whose name constraints don't permit the hosts, is replaced immediately. A CA that a user put into the
// Secret is adopted.
//
// The error wraps ErrUnusable, or it comes from random.
func Make(now time.Time, current *Authority, facts Facts, policy Policy, random io.Reader) (Plan, error) {
	now = now.UTC().Truncate(time.Second) // the precision of certificates
	if current == nil {
		generated, err := certificate.NewCA(policy.Hosts, policy.Lifetime, now, random)
		if err != nil {
			return Plan{}, err
		}
		a := &Authority{Current: generated, Previous: facts.Published}
		a.tidy(now, policy)
		return Plan{Authority: a, Steps: []Step{Created}, Next: a.next(now, policy)}, nil
	}
	a := *current
	p := Plan{Authority: &a}
	if a.replaced(facts) {
		a.Previous = slices.Concat(a.Previous, facts.Published)
		if !expired(facts.Serving, now) && !now.Before(facts.Serving.NotBefore) {
			p.Steps = append(p.Steps, Adopted) // Otherwise, the CA of the certificate was removed because it isn't valid.
		}
	}
	a.tidy(now, policy)
	step, err := a.advance(now, facts, policy, random)
	if err != nil {
		return Plan{}, err
	}
	if step != "" {
		p.Steps = append(p.Steps, step)
		a.tidy(now, policy)
	}
	p.Next = a.next(now, policy)
	return p, nil
}

// advance takes at most one step.
func (a *Authority) advance(now time.Time, facts Facts, policy Policy, random io.Reader) (Step, error) {
	leaf := a.Current.Leaf
	renamed := !certificate.Permits(leaf, policy.Hosts)
	switch {
	case renamed && !certificate.IsGenerated(leaf):
		return "", fmt.Errorf("%w: the name constraints of the certificate in Secret %s permit only %v, not all of %v; replace it, or delete the Secret to generate a new CA",
			ErrUnusable, SecretName, leaf.PermittedDNSDomains, policy.Hosts)
	case renamed:
		return Renamed, a.replace(now, policy, random)
	case expired(leaf, now):
		return Expired, a.replace(now, policy, random)
	case generatedLater(leaf, now):
		return NotYetValid, a.replace(now, policy, random)
	case now.Before(leaf.NotBefore):
		return "", fmt.Errorf("%w: the CA in Secret %s is not valid before %s; check it, and the clock of the node",
			ErrUnusable, SecretName, leaf.NotBefore.Format(time.RFC3339))
	case a.Next == nil && !now.Before(policy.publishAt(a)):
		next, err := certificate.NewCA(policy.Hosts, policy.Lifetime, now, random)
		if err != nil {
			return "", err
		}
		a.Next, a.PublishedAt = next, now
		return Published, a.crossSign(now, random)
	case a.Next == nil:
		return "", nil
	case a.PublishedAt.IsZero() || a.PublishedAt.After(now):
		a.PublishedAt = now // A user added it, or the clock was wrong.
		return Published, a.crossSign(now, random)
	}
	return a.move(now, facts, policy, random)
}

// move makes the next CA sign if it is time to.
func (a *Authority) move(now time.Time, facts Facts, policy Policy, random io.Reader) (Step, error) {
	at, deadline := policy.MoveAt(a)
	switch {
	case now.Before(at):
		return "", a.crossSign(now, random)
	case facts.Outdated == 0:
		a.promote()
		return Moved, nil
	case !now.Before(deadline):
		a.promote()
		return Forced, nil
	}
	return "", a.crossSign(now, random)
}

// replace makes another CA sign immediately: the next one if it can.
func (a *Authority) replace(now time.Time, policy Policy, random io.Reader) error {
	if a.Next == nil || now.Before(a.Next.Leaf.NotBefore) {
		next, err := certificate.NewCA(policy.Hosts, policy.Lifetime, now, random)
		if err != nil {
			return err
		}
		a.Next, a.NextCross = next, nil
	}
	a.promote()
	return nil
}

// promote makes the next CA sign. The private key of the old one is dropped.
func (a *Authority) promote() {
	a.Previous = slices.Concat(a.Previous, a.Current.Chain)
	a.Current, a.Cross = a.Next, a.NextCross
	a.Next, a.NextCross, a.PublishedAt = nil, nil, time.Time{}
}

// crossSign makes the current and the next CA sign each other, unless they have.
func (a *Authority) crossSign(now time.Time, random io.Reader) error {
	if !slices.ContainsFunc(a.Cross, a.Next.Signed) {
		cross, err := a.Next.CrossSign(a.Current, now, random)
		if err != nil {
			return err
		}
		a.Cross = appendSome(a.Cross, cross)
	}
	if !slices.ContainsFunc(a.NextCross, a.Current.Signed) {
		cross, err := a.Current.CrossSign(a.Next, now, random)
		if err != nil {
			return err
		}
		a.NextCross = appendSome(a.NextCross, cross)
	}
	return nil
}

func appendSome(list []*x509.Certificate, c *x509.Certificate) []*x509.Certificate {
	if c == nil {
		return list
	}
	return append(slices.Clone(list), c)
}

// replaced reports whether a user replaced the CA: none of its certificates signed the serving
// certificate.
func (a *Authority) replaced(facts Facts) bool {
	return facts.Serving != nil && !slices.ContainsFunc(slices.Concat(a.Current.Chain, a.Previous), func(ca *x509.Certificate) bool {
		return certificate.SignedBy(facts.Serving, ca)
	})
}

// tidy removes what has no use any longer: a next CA that can't replace the current one, certificates
// that have expired, and cross-signed certificates of other CAs.
func (a *Authority) tidy(now time.Time, policy Policy) {
	if a.Next != nil && a.nextIsObsolete(now, policy) {
		a.Next, a.NextCross, a.PublishedAt = nil, nil, time.Time{}
	}
	a.Previous = sorted(slices.DeleteFunc(slices.Clone(a.Previous), func(c *x509.Certificate) bool {
		return expired(c, now) || generatedLater(c, now) || !certificate.Signs(c) || slices.ContainsFunc(a.Current.Chain, c.Equal) || a.Next != nil && slices.ContainsFunc(a.Next.Chain, c.Equal)
	}))
	a.Cross = a.tidyCross(a.Cross, a.Current, now)
	if a.Next != nil {
		a.NextCross = a.tidyCross(a.NextCross, a.Next, now)
	}
}

// nextIsObsolete reports whether the next CA can't replace the current one.
func (a *Authority) nextIsObsolete(now time.Time, policy Policy) bool {
	leaf := a.Next.Leaf
	return leaf.Equal(a.Current.Leaf) || expired(leaf, now) || !certificate.Permits(leaf, policy.Hosts) || generatedLater(leaf, now)
}

// tidyCross returns the valid certificates for the key of a CA that another CA of the bundle signed. The
// oldest is the first: OpenSSL tries only that one, and clients that trust only a newer CA are rare.
func (a *Authority) tidyCross(list []*x509.Certificate, of *certificate.CA, now time.Time) []*x509.Certificate {
	issuers := a.Bundle()
	return sorted(slices.DeleteFunc(slices.Clone(list), func(c *x509.Certificate) bool {
		return expired(c, now) || !bytes.Equal(c.RawSubjectPublicKeyInfo, of.Leaf.RawSubjectPublicKeyInfo) ||
			!slices.ContainsFunc(issuers, func(ca *x509.Certificate) bool { return certificate.SignedBy(c, ca) })
	}))
}

// next returns the earliest time after now at which the CA changes.
func (a *Authority) next(now time.Time, policy Policy) time.Time {
	var next time.Time
	consider := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	consider(expiry(a.Current.Leaf))
	for _, c := range slices.Concat(a.Previous, a.Cross, a.NextCross) {
		consider(expiry(c))
	}
	if a.Next == nil {
		consider(policy.publishAt(a))
		return next
	}
	at, deadline := policy.MoveAt(a)
	consider(at)
	consider(deadline)
	return next
}

// expiry returns the time from which a certificate is no longer valid. It is valid throughout the
// second in which it expires.
func expiry(c *x509.Certificate) time.Time { return c.NotAfter.Add(time.Second) }

func expired(c *x509.Certificate, now time.Time) bool { return !now.Before(expiry(c)) }

// generatedLater reports whether a CA was generated while the clock was wrong: it isn't valid yet.
func generatedLater(c *x509.Certificate, now time.Time) bool {
	return certificate.IsGenerated(c) && now.Before(c.NotBefore)
}
