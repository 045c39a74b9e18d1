package portal

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// overlap is how long the current secret stays valid after a rotation.
type overlap struct {
	Value, Label string
	duration     time.Duration
}

// overlaps are the options that users can select. The first is the default.
var overlaps = []overlap{
	{"24h", "In 1 day", 24 * time.Hour},
	{"1h", "In 1 hour", time.Hour},
	{"168h", "In 7 days", 7 * 24 * time.Hour},
	{"720h", "In 30 days", 30 * 24 * time.Hour},
	{"0s", "Now (compromised)", 0},
}

// newSecret is a generated client secret. It is shown once and only its hash is stored.
type newSecret struct {
	plain, id, hash string
}

func generateSecret(random io.Reader) (newSecret, error) {
	plain, err := clientsecret.Generate(random)
	if err != nil {
		return newSecret{}, err
	}
	verifier, err := clientsecret.Hash(plain, random)
	if err != nil {
		return newSecret{}, err
	}
	return newSecret{plain: plain, id: verifier.ID(), hash: verifier.String()}, nil
}

// rotate generates a new secret for a client.
func (p *portal) rotate(w http.ResponseWriter, req *request) error {
	live := &v1beta1.ApiClient{}
	if err := req.get(live); err != nil {
		return err
	}
	if live.GeneratesSecret() {
		return p.rotateGenerated(w, req)
	}
	if err := req.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	chosen := slices.IndexFunc(overlaps, func(o overlap) bool { return o.Value == req.r.PostForm.Get("overlap") })
	if chosen < 0 {
		return fmt.Errorf("%w: select when the current secret expires", errInput)
	}
	secret, err := generateSecret(p.Random)
	if err != nil {
		return err
	}
	expiry := p.Now().Add(overlaps[chosen].duration).UTC().Truncate(time.Second)
	err = p.change(req, edit{action: audit.ActionRotate, path: secretPath, mutate: func(c *v1beta1.ApiClient) (string, error) {
		return secret.id, addSecret(c, secret, expiry, p.Now())
	}})
	if err != nil {
		return err
	}
	return p.showSecret(w, req, live, secret)
}

// rotateGenerated requests a rotation from the operator, which uses the overlap from the spec.
func (p *portal) rotateGenerated(w http.ResponseWriter, req *request) error {
	err := p.change(req, edit{action: audit.ActionRotate, path: rotateAfterPath, mutate: func(c *v1beta1.ApiClient) (string, error) {
		if !c.GeneratesSecret() {
			return "", errChanged
		}
		if c.Spec.Secret == nil {
			c.Spec.Secret = &v1beta1.ClientSecretSource{}
		}
		if c.Spec.Secret.Generated == nil {
			c.Spec.Secret.Generated = &v1beta1.GeneratedSecret{}
		}
		c.Spec.Secret.Generated.Rotation.RotationRequestTime = &metav1.Time{Time: p.Now().UTC().Truncate(time.Second)}
		return "", nil
	}})
	return p.backToClient(w, req, err)
}

// addSecret adds a secret to the client's spec, makes the current secret expire at expiry, and
// removes expired secrets.
func addSecret(c *v1beta1.ApiClient, secret newSecret, expiry, now time.Time) error {
	if c.Spec.Secret == nil || c.Spec.Secret.Hashed == nil {
		return fmt.Errorf("%w: the secret of this client is not managed in the portal", errInput)
	}
	var valid []v1beta1.HashedSecret
	for _, h := range c.Spec.Secret.Hashed {
		if h.ExpirationTime != nil && !now.Before(h.ExpirationTime.Time) {
			if err := checkRemovable(c, h.ID); err != nil {
				return err
			}
			continue
		}
		if h.ExpirationTime == nil || expiry.Before(h.ExpirationTime.Time) {
			h.ExpirationTime = &metav1.Time{Time: expiry}
		}
		valid = append(valid, h)
	}
	if len(valid) > 1 {
		return fmt.Errorf("%w: this client already has two valid secrets; revoke one first", errInput)
	}
	valid = append(valid, v1beta1.HashedSecret{ID: secret.id, Hash: secret.hash})
	c.Spec.Secret.Hashed = valid
	return nil
}

// checkRemovable fails if another field manager also owns an expired secret. Otherwise that manager
// would add the secret again without the expiration that the portal set, and it would become valid
// again.
func checkRemovable(c *v1beta1.ApiClient, id string) error {
	if gitops.OwnedBy(c, hashedPath(id), isOtherManager) {
		return fmt.Errorf("%w: remove the expired secret %s with the tool that added it; a client can have at most two secrets", errInput, id)
	}
	return nil
}

// revokeSecret expires a secret immediately.
func (p *portal) revokeSecret(w http.ResponseWriter, req *request) error {
	if err := req.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	id := req.r.PostForm.Get("id")
	err := p.change(req, edit{action: audit.ActionRevokeSecret, path: secretPath, mutate: func(c *v1beta1.ApiClient) (string, error) {
		at := -1
		if c.Spec.Secret != nil {
			at = slices.IndexFunc(c.Spec.Secret.Hashed, func(h v1beta1.HashedSecret) bool { return h.ID == id })
		}
		if at < 0 {
			return "", fmt.Errorf("%w: the client has no secret with this ID", errInput)
		}
		c.Spec.Secret.Hashed[at].ExpirationTime = &metav1.Time{Time: p.Now().UTC().Truncate(time.Second)}
		return id, nil
	}})
	return p.backToClient(w, req, err)
}
