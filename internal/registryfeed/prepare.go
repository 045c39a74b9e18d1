package registryfeed

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/registry"
)

// prepare turns a record into the realm or the client that the registry holds; the
// error is record.ErrUnreadable or says why a realm can't sign.
func prepare(secret *corev1.Secret) (*registry.Realm, *registry.Client, error) {
	if record.KindOf(secret) == record.KindRealm {
		realm, err := prepareRealm(secret)
		return realm, nil, err
	}
	client, err := prepareClient(secret)
	return nil, client, err
}

func prepareRealm(secret *corev1.Secret) (*registry.Realm, error) {
	r, err := record.ReadRealm(secret)
	if err != nil {
		return nil, err
	}
	return registry.NewRealm(registry.RealmSettings{
		UID:           string(record.OwnerUID(secret)),
		Name:          r.Name,
		Issuer:        r.Issuer,
		CreatedAt:     secret.CreationTimestamp.Time, // by the API server's clock
		Disabled:      r.Disabled,
		TokenLifetime: time.Duration(r.TokenLifetimeSeconds) * time.Second,
		Audiences:     r.Audiences,
		Scopes:        r.Scopes,
		Keys:          r.Keys,
	})
}

func prepareClient(secret *corev1.Secret) (*registry.Client, error) {
	c, err := record.ReadClient(secret)
	if err != nil {
		return nil, err
	}
	verifiers := make([]clientsecret.Verifier, 0, len(c.Secrets))
	for _, s := range c.Secrets {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, verifier)
	}
	return &registry.Client{
		UID:           string(record.OwnerUID(secret)),
		RealmUID:      string(c.RealmUID),
		ID:            c.ClientID,
		CreatedAt:     c.CreatedAt,
		Disabled:      c.Disabled,
		ExpiresAt:     c.ExpiresAt,
		TokenLifetime: time.Duration(c.TokenLifetimeSeconds) * time.Second,
		Scopes:        slices.Sorted(slices.Values(c.Scopes)),
		Audiences:     c.Audiences,
		Verifiers:     verifiers,
	}, nil
}
