package tokenservice

import (
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

// certificates are the managed CA and the serving certificate.
type certificates struct {
	// plan is the plan for the CA; its Authority is nil if the CA must not be written. There are no
	// steps then.
	plan authority.Plan
	// authority is the CA; nil if there is none that can be used.
	authority *authority.Authority
	// serving is the serving certificate with its chain; nil if it must not be written.
	serving *certificate.Pair
	// bundle contains the certificates that clients must trust, in PEM format.
	bundle []byte
	// next is the time of the next change; zero if there is none.
	next time.Time
}

// decideCertificates plans the CA and the serving certificate. If the next CA or the previous ones
// can't be read, the CA keeps signing but doesn't change.
func decideCertificates(seen observed, instance *config.Instance, now time.Time, random io.Reader) (certificates, error) {
	var c certificates
	policy := authority.PolicyOf(instance)
	serving, published := servingcert.FromSecret(seen.serving)
	ca, failed := authority.Decode(seen.authority)
	switch {
	case failed == nil:
		facts := authority.Facts{Published: published, Outdated: len(seen.outdated)}
		facts.Serving, _ = serving.Parse() // An invalid certificate says nothing about the CA.
		plan, err := authority.Make(now, ca, facts, policy, random)
		if err != nil {
			return c, err
		}
		c.plan, ca, c.next = plan, plan.Authority, plan.Next
	case ca == nil:
		return c, failed
	}
	c.authority = ca
	c.bundle = certificate.Encode(ca.Bundle())

	renewAt := servingcert.RenewAt(ca.Current, serving, policy.Hosts, now)
	if !renewAt.After(now) || !servingcert.HasChain(serving, ca.Chain()) {
		var err error
		if serving, err = ca.Current.Issue(policy.Hosts, policy.ServingLifetime, now, random); err != nil {
			return c, err
		}
		if renewAt = servingcert.RenewAt(ca.Current, serving, policy.Hosts, now); !renewAt.After(now) {
			return c, errors.Join(failed, fmt.Errorf("%w: the CA in Secret %s issued a certificate that is not valid now; check the CA and the clock of the node", authority.ErrUnusable, authority.SecretName))
		}
	}
	serving = servingcert.WithChain(serving, ca.Chain())
	c.serving = &serving
	if c.next.IsZero() || renewAt.Before(c.next) {
		c.next = renewAt
	}
	return c, failed
}

// isWaiting reports whether the CA is renewed as soon as all credentials Secrets contain the bundle.
func (c *certificates) isWaiting() bool { return c.authority != nil && c.authority.Next != nil }

// renewing returns the CA in a Secret if a renewal is in progress; otherwise nil.
func renewing(secret *corev1.Secret) *authority.Authority {
	ca, _ := authority.Decode(secret) // The decision reports the error.
	if ca == nil || ca.Next == nil && len(ca.Previous) == 0 {
		return nil
	}
	return ca
}
