package portal

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	apply "github.com/realmkeeper/realmkeeper/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/gitops"
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
	live := &v1alpha1.ApiClient{}
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
	err = p.change(req, edit{action: audit.ActionRotate, path: secretPath, mutate: func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
		return secret.id, addSecret(live, spec, secret, expiry, p.Now())
	}})
	if err != nil {
		return err
	}
	return p.showSecret(w, req, live, secret)
}

// rotateGenerated requests a rotation from the operator, which uses the overlap from the spec.
func (p *portal) rotateGenerated(w http.ResponseWriter, req *request) error {
	err := p.change(req, edit{action: audit.ActionRotate, path: rotateAfterPath, mutate: func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
		if !live.GeneratesSecret() {
			return "", errChanged
		}
		if spec.Secret == nil {
			spec.WithSecret(apply.ClientSecretSource())
		}
		if spec.Secret.Generated == nil {
			spec.Secret.WithGenerated(apply.GeneratedSecret())
		}
		if spec.Secret.Generated.Rotation == nil {
			spec.Secret.Generated.WithRotation(apply.SecretRotation())
		}
		spec.Secret.Generated.Rotation.WithRotateAfter(metav1.NewTime(p.Now().UTC().Truncate(time.Second)))
		return "", nil
	}})
	return p.backToClient(w, req, err)
}

// addSecret adds a secret to the client's spec, makes the current secret expire at expiry, and
// removes expired secrets.
func addSecret(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration, secret newSecret, expiry, now time.Time) error {
	if live.Spec.Secret == nil || live.Spec.Secret.Hashed == nil {
		return fmt.Errorf("%w: the secret of this client is not managed in the portal", errInput)
	}
	if spec.Secret == nil {
		spec.WithSecret(apply.ClientSecretSource())
	}
	valid := 0
	for _, h := range live.Spec.Secret.Hashed {
		switch {
		case h.ExpiresAt != nil && !now.Before(h.ExpiresAt.Time):
			if err := removeSecret(live, spec, h.ID); err != nil {
				return err
			}
		case valid == 1:
			return fmt.Errorf("%w: this client already has two valid secrets; revoke one first", errInput)
		default:
			valid++
			if h.ExpiresAt == nil || expiry.Before(h.ExpiresAt.Time) {
				hashedOf(spec, h.ID).WithExpiresAt(metav1.NewTime(expiry))
			}
		}
	}
	hashedOf(spec, secret.id).WithHash(secret.hash)
	return nil
}

// removeSecret removes an expired secret from the fields that the portal owns. It fails if another
// field manager also owns the secret. Otherwise the secret would remain without the expiration that
// the portal set, and would become valid again.
func removeSecret(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration, id string) error {
	if gitops.OwnedBy(live, hashedPath(id), isOtherManager) {
		return fmt.Errorf("%w: remove the expired secret %s with the tool that added it; a client can have at most two secrets", errInput, id)
	}
	spec.Secret.Hashed = slices.DeleteFunc(spec.Secret.Hashed, func(h apply.HashedSecretApplyConfiguration) bool {
		return h.ID != nil && *h.ID == id
	})
	return nil
}

// hashedOf returns the secret's entry in the fields that the portal owns. It adds the entry if it
// is missing.
func hashedOf(spec *apply.ApiClientSpecApplyConfiguration, id string) *apply.HashedSecretApplyConfiguration {
	at := slices.IndexFunc(spec.Secret.Hashed, func(h apply.HashedSecretApplyConfiguration) bool {
		return h.ID != nil && *h.ID == id
	})
	if at < 0 {
		spec.Secret.WithHashed(apply.HashedSecret().WithID(id))
		at = len(spec.Secret.Hashed) - 1
	}
	return &spec.Secret.Hashed[at]
}

// revokeSecret expires a secret immediately.
func (p *portal) revokeSecret(w http.ResponseWriter, req *request) error {
	if err := req.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	id := req.r.PostForm.Get("id")
	err := p.change(req, edit{action: audit.ActionRevokeSecret, path: secretPath, mutate: func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
		if live.Spec.Secret == nil || !slices.ContainsFunc(live.Spec.Secret.Hashed, func(h v1alpha1.HashedSecret) bool { return h.ID == id }) {
			return "", fmt.Errorf("%w: the client has no secret with this ID", errInput)
		}
		if spec.Secret == nil {
			spec.WithSecret(apply.ClientSecretSource())
		}
		hashedOf(spec, id).WithExpiresAt(metav1.NewTime(p.Now().UTC().Truncate(time.Second)))
		return id, nil
	}})
	return p.backToClient(w, req, err)
}
