package tokenservice

import (
	"crypto/x509"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// certificates are the managed CA and the serving certificate.
type certificates struct {
	// plan is the plan for the CA; its Authority is nil if there is none that can be used.
	plan authority.Plan
	// serving is the serving certificate with its chain; nil if it must not be written.
	serving *pki.Pair
	// bundle contains the certificates that clients must trust, in PEM format.
	bundle []byte
	// unexpected reports that clients may not trust the CA that issues serving certificates from now on,
	// because it was not published before.
	unexpected bool
	// next is the time of the next change; zero if there is none.
	next time.Time
}

// decideCertificates plans the CA and the serving certificate.
func decideCertificates(seen observed, instance *config.Instance, now time.Time, random io.Reader) (certificates, error) {
	policy := authority.PolicyOf(instance)
	ca, err := authority.Decode(seen.authority)
	if err != nil {
		return certificates{}, err
	}
	plan, err := authority.Make(now, ca, policy, random)
	if err != nil {
		return certificates{}, err
	}
	c := certificates{plan: plan, bundle: pki.Encode(plan.Bundle()), next: plan.Next}

	serving := pki.ServingPair(seen.serving)
	leaf, _ := serving.Parse() // An invalid certificate is issued again.
	c.unexpected = leaf != nil && !plan.Current.Signed(leaf) && plan.Step != authority.Switched && (plan.Step != "" || !isPrevious(plan, leaf))
	renewAt := pki.RenewAt(plan.Current, serving, policy.Hosts, now)
	if !renewAt.After(now) || !pki.HasChain(serving, plan.Chain()) {
		if serving, err = plan.Current.Issue(policy.Hosts, policy.ServingLifetime, now, random); err != nil {
			return c, err
		}
		if renewAt = pki.RenewAt(plan.Current, serving, policy.Hosts, now); !renewAt.After(now) {
			return c, fmt.Errorf("%w: the CA in Secret %s issued a certificate that is not valid now; check the CA and the clock of the node", authority.ErrUnusable, authority.SecretName)
		}
	}
	serving = pki.WithChain(serving, plan.Chain())
	c.serving = &serving
	c.next = timestamp.Earliest(c.next, renewAt)
	return c, nil
}

// isPrevious reports whether a previous CA signed the serving certificate: the operator stopped after a
// switch, before it wrote another certificate.
func isPrevious(plan authority.Plan, serving *x509.Certificate) bool {
	return slices.ContainsFunc(plan.Previous, func(ca *x509.Certificate) bool { return pki.SignedBy(serving, ca) })
}
