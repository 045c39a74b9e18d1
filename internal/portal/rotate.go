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
)

// overlap is how long an old secret stays valid beside its successor.
type overlap struct {
	Value, Words string
	lasts        time.Duration
}

// overlaps are those that a person can choose; the first is the usual one.
var overlaps = []overlap{
	{"24h", "a day", 24 * time.Hour},
	{"1h", "an hour", time.Hour},
	{"168h", "a week", 7 * 24 * time.Hour},
	{"720h", "30 days", 30 * 24 * time.Hour},
	{"0s", "not at all: it leaked", 0},
}

// newSecret is a client secret that was made here. It is shown once, and only the hash is kept.
type newSecret struct {
	plain, id, hash string
}

func makeSecret(random io.Reader) (newSecret, error) {
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

// rotate gives a client another secret.
func (p *portal) rotate(w http.ResponseWriter, v *visit) error {
	live := &v1alpha1.ApiClient{}
	if err := v.get(live); err != nil {
		return err
	}
	if live.GeneratesSecret() {
		return p.rotateGenerated(w, v)
	}
	if err := v.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	chosen := slices.IndexFunc(overlaps, func(o overlap) bool { return o.Value == v.r.PostForm.Get("overlap") })
	if chosen < 0 {
		return fmt.Errorf("%w: choose how long the old secret stays valid", errInput)
	}
	secret, err := makeSecret(p.Random)
	if err != nil {
		return err
	}
	ends := p.Now().Add(overlaps[chosen].lasts).UTC().Truncate(time.Second)
	err = p.change(v, edit{action: audit.ActionRotate, path: secretPath, decide: func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
		return secret.id, addSecret(live, spec, secret, ends, p.Now())
	}})
	if err != nil {
		return err
	}
	return p.showSecret(w, v, live, secret)
}

// rotateGenerated has the operator make another secret, with the overlap that the spec says.
func (p *portal) rotateGenerated(w http.ResponseWriter, v *visit) error {
	err := p.change(v, edit{action: audit.ActionRotate, path: rotateAfterPath, decide: func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
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
	return p.backToClient(w, v, err)
}

// addSecret adds a secret to those of a client, sets the end of the one that is valid, and removes
// one that has ended.
func addSecret(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration, secret newSecret, ends, now time.Time) error {
	if live.Spec.Secret == nil || live.Spec.Secret.Hashed == nil {
		return fmt.Errorf("%w: the secret of this client isn't made here", errInput)
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
			return fmt.Errorf("%w: two secrets are valid already; end one of them first", errInput)
		default:
			valid++
			if h.ExpiresAt == nil || ends.Before(h.ExpiresAt.Time) {
				hashedOf(spec, h.ID).WithExpiresAt(metav1.NewTime(ends))
			}
		}
	}
	hashedOf(spec, secret.id).WithHash(secret.hash)
	return nil
}

// removeSecret leaves out a secret that we have set. What others have set stays, and would be
// valid again without the end that we have set.
func removeSecret(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration, id string) error {
	if ownedBy(live, hashedPath(id), isForeign) {
		return fmt.Errorf("%w: secret %s has ended, and was set with another tool, which alone can remove it; there is room for two", errInput, id)
	}
	spec.Secret.Hashed = slices.DeleteFunc(spec.Secret.Hashed, func(h apply.HashedSecretApplyConfiguration) bool {
		return h.ID != nil && *h.ID == id
	})
	return nil
}

// hashedOf returns the entry of a secret among those that the portal sets.
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

// endSecret ends a secret at once.
func (p *portal) endSecret(w http.ResponseWriter, v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	id := v.r.PostForm.Get("id")
	err := p.change(v, edit{action: audit.ActionRevokeSecret, path: secretPath, decide: func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
		if live.Spec.Secret == nil || !slices.ContainsFunc(live.Spec.Secret.Hashed, func(h v1alpha1.HashedSecret) bool { return h.ID == id }) {
			return "", fmt.Errorf("%w: the client has no such secret", errInput)
		}
		if spec.Secret == nil {
			spec.WithSecret(apply.ClientSecretSource())
		}
		hashedOf(spec, id).WithExpiresAt(metav1.NewTime(p.Now().UTC().Truncate(time.Second)))
		return id, nil
	}})
	return p.backToClient(w, v, err)
}
