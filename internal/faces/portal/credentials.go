package portal

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
)

// secretView describes a client secret without its value.
type secretView struct {
	ID string
	// Created is nil if the token servers haven't loaded the secret yet. Used is nil if the secret was
	// never used.
	Created, Expires, Used *metav1.Time
	Expired                bool
	// Earlier is set if the secret may expire before Expires, because it also expires when it is
	// unused.
	Earlier bool
	// Unused is set if the secret has not been used for Options.StaleAfter.
	Unused bool
}

// isUnused reports whether a valid credential has not been used for Options.StaleAfter.
func (p *portal) isUnused(c *v1beta1.ApiClient, credential *v1beta1.CredentialStatus, now time.Time) bool {
	expired := credential.ExpirationTime != nil && !now.Before(credential.ExpirationTime.Time)
	return !expired && now.Sub(c.UnusedSince(credential)) > p.StaleAfter
}

// secretsOf returns the source and the list of the client's secrets.
func (p *portal) secretsOf(c *v1beta1.ApiClient) (source string, secrets []secretView) {
	switch {
	case c.Spec.Secret != nil && c.Spec.Secret.Hashed != nil:
		return "hashed", p.hashedSecrets(c)
	case c.Spec.Secret != nil && c.Spec.Secret.Provided != nil:
		return "provided", p.loadedSecrets(c)
	case c.GeneratesSecret():
		return "generated", p.loadedSecrets(c)
	}
	return "none", p.loadedSecrets(c)
}

// hashedSecrets returns the secrets in the order of the spec.
func (p *portal) hashedSecrets(c *v1beta1.ApiClient) (secrets []secretView) {
	loaded := map[string]secretView{}
	for _, s := range p.loadedSecrets(c) {
		loaded[s.ID] = s
	}
	for _, h := range c.Spec.Secret.Hashed {
		view := loaded[h.ID]
		view.ID, view.Expires, view.Expired = h.ID, h.ExpirationTime, p.expired(h.ExpirationTime)
		view.Unused = view.Unused && !view.Expired
		secrets = append(secrets, view)
	}
	return secrets
}

// loadedSecrets returns the secrets in the status.
func (p *portal) loadedSecrets(c *v1beta1.ApiClient) (secrets []secretView) {
	expiresWhenUnused := rotationOf(c).ExpireWhenUnused != nil
	for _, s := range c.Status.Secrets() {
		secrets = append(secrets, secretView{
			ID: s.Name, Created: s.CreationTime, Expires: s.ExpirationTime, Used: s.LastUsedTime, Expired: p.expired(s.ExpirationTime),
			Earlier: expiresWhenUnused && s.ExpirationTime != nil && !p.expired(s.ExpirationTime), Unused: p.isUnused(c, &s, p.Now()),
		})
	}
	return secrets
}

func (p *portal) expired(at *metav1.Time) bool { return at != nil && !p.Now().Before(at.Time) }

// rotationOf returns the rotation settings of a generated secret. It is empty for other clients.
func rotationOf(c *v1beta1.ApiClient) v1beta1.SecretRotation {
	if !c.GeneratesSecret() || c.Spec.Secret == nil || c.Spec.Secret.Generated == nil {
		return v1beta1.SecretRotation{}
	}
	return c.Spec.Secret.Generated.Rotation
}

// describeRotation describes when the old secret expires after a rotation. It returns an empty string
// unless the operator generates the secret.
func describeRotation(c *v1beta1.ApiClient) string {
	if !c.GeneratesSecret() {
		return ""
	}
	rotation := rotationOf(c)
	if end := rotation.ExpireWhenUnused; end != nil && end.After != nil && end.Max != nil {
		return "After a rotation, the old secret expires when it hasn't been used for " + describe.Duration(end.After) +
			", and after " + describe.Duration(end.Max) + " at the latest."
	}
	overlap := rotation.EffectiveOverlap()
	if overlap == 0 {
		return "After a rotation, the old secret expires immediately."
	}
	return "After a rotation, the old secret expires after " + describe.Duration(&v1beta1.Duration{Duration: overlap}) + "."
}

// credentialView describes a credential that isn't a secret.
type credentialView struct {
	Kind, Name string
	// Used is nil if the credential was never used. Unused is set if it has not been used for
	// Options.StaleAfter.
	Used   *metav1.Time
	Unused bool
}

var credentialKinds = map[v1beta1.CredentialType]string{
	v1beta1.CredentialTypePublicKey: "Public key",
	v1beta1.CredentialTypeIdentity:  "Identity",
}

// otherCredentials returns the client's credentials that aren't secrets.
func (p *portal) otherCredentials(c *v1beta1.ApiClient) (views []credentialView) {
	for _, s := range c.Status.Credentials {
		if s.Type == v1beta1.CredentialTypeSecret {
			continue
		}
		views = append(views, credentialView{Kind: credentialKinds[s.Type], Name: s.Name, Used: s.LastUsedTime, Unused: p.isUnused(c, &s, p.Now())})
	}
	return views
}
