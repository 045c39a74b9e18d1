package feed

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// prepared holds a list of records, converted for the registry.
type prepared struct {
	realms     []*registry.Realm
	clients    []*registry.Client
	readable   []*corev1.Secret
	unreadable map[string]error // by record name
}

func prepareAll(secrets []*corev1.Secret) prepared {
	p := prepared{unreadable: map[string]error{}}
	for _, secret := range secrets {
		realm, client, err := prepare(secret)
		switch {
		case err != nil:
			p.unreadable[secret.Name] = err
			continue
		case realm != nil:
			p.realms = append(p.realms, realm)
		case client != nil:
			p.clients = append(p.clients, client)
		}
		p.readable = append(p.readable, secret)
	}
	return p
}

// add adds the last known good versions of unreadable records.
func (p *prepared) add(lastKnownGood prepared) {
	p.realms = append(p.realms, lastKnownGood.realms...)
	p.clients = append(p.clients, lastKnownGood.clients...)
}

// prepare converts a record to a realm or client for the registry. The error is
// record.ErrUnreadable, or the reason why a realm can't sign.
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
		Record:           secret.Name,
		UID:              string(record.RealmUID(secret)),
		Name:             r.Name,
		Issuer:           r.Issuer,
		CreatedAt:        secret.CreationTimestamp.Time, // set by the API server, from its clock
		Disabled:         r.Disabled,
		TokensValidAfter: r.TokensValidAfter,
		TokensPerSecond:  r.TokensPerSecond,
		TokenLifetime:    time.Duration(r.TokenLifetimeSeconds) * time.Second,
		Scopes:           r.Scopes,
		KeyCache:         time.Duration(r.KeyCacheSeconds) * time.Second,
		Keys:             r.Keys,
	})
}

func prepareClient(secret *corev1.Secret) (*registry.Client, error) {
	c, err := record.ReadClient(secret)
	if err != nil {
		return nil, err
	}
	secrets := make([]clientsecret.Credential, 0, len(c.Secrets))
	for _, s := range c.Secrets {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, clientsecret.Credential{ID: s.ID, Verifier: verifier, ExpiresAt: s.ExpiresAt})
	}
	return &registry.Client{
		Record:           secret.Name,
		UID:              string(c.UID),
		Identity:         string(c.Identity),
		RealmUID:         string(c.RealmUID),
		ID:               c.ClientID,
		Disabled:         c.Disabled,
		ExpiresAt:        c.ExpiresAt,
		TokensValidAfter: c.TokensValidAfter,
		TokensPerSecond:  c.TokensPerSecond,
		TokenLifetime:    time.Duration(c.TokenLifetimeSeconds) * time.Second,
		Scopes:           slices.Sorted(slices.Values(c.Scopes)),
		Audiences:        c.Audiences,
		Introspects:      c.IntrospectionAudiences,
		Secrets:          secrets,
		PublicKeys:       c.PublicKeys,
		ServiceAccounts:  serviceAccounts(c),
	}, nil
}

func serviceAccounts(c record.Client) []clientassertion.ServiceAccount {
	var accounts []clientassertion.ServiceAccount
	for _, a := range c.ServiceAccounts {
		accounts = append(accounts, clientassertion.ServiceAccount{Namespace: a.Namespace, Name: a.Name, UID: string(a.UID)})
	}
	return accounts
}
