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
	subjects   []*registry.Subject
	readable   []*corev1.Secret
	unreadable map[string]error // by record name
}

func prepareAll(secrets []*corev1.Secret) prepared {
	p := prepared{unreadable: map[string]error{}}
	for _, secret := range secrets {
		if err := prepare(secret, &p); err != nil {
			p.unreadable[secret.Name] = err
			continue
		}
		p.readable = append(p.readable, secret)
	}
	return p
}

// add adds the last known good versions of unreadable records.
func (p *prepared) add(lastKnownGood prepared) {
	p.realms = append(p.realms, lastKnownGood.realms...)
	p.clients = append(p.clients, lastKnownGood.clients...)
	p.subjects = append(p.subjects, lastKnownGood.subjects...)
}

// set adds all prepared entries to the registry.
func (p *prepared) set(reg *registry.Registry) {
	for _, realm := range p.realms {
		reg.SetRealm(realm)
	}
	for _, client := range p.clients {
		reg.SetClient(client)
	}
	for _, subject := range p.subjects {
		reg.SetSubject(subject)
	}
}

// prepare converts a record for the registry and adds it to p. The error is record.ErrUnreadable, or
// the reason why a realm can't sign.
func prepare(secret *corev1.Secret, p *prepared) error {
	switch record.KindOf(secret) {
	case record.KindRealm:
		realm, err := prepareRealm(secret)
		if err != nil {
			return err
		}
		p.realms = append(p.realms, realm)
	case record.KindSubject:
		subject, err := prepareSubject(secret)
		if err != nil {
			return err
		}
		p.subjects = append(p.subjects, subject)
	default:
		client, err := prepareClient(secret)
		if err != nil {
			return err
		}
		p.clients = append(p.clients, client)
	}
	return nil
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
		ClusterIssuerURL: r.ClusterIssuerURL,
		Audiences:        r.Audiences,
		Issuers:          issuers(r),
	})
}

func issuers(r record.Realm) []registry.Issuer {
	var trusted []registry.Issuer
	for _, i := range r.Issuers {
		trusted = append(trusted, registry.Issuer{
			Name: i.Name, URL: i.Issuer, Audience: i.Audience, RequiredClaims: i.RequiredClaims, Keys: i.Keys,
		})
	}
	return trusted
}

func prepareSubject(secret *corev1.Secret) (*registry.Subject, error) {
	s, err := record.ReadSubject(secret)
	if err != nil {
		return nil, err
	}
	return &registry.Subject{
		Record:    secret.Name,
		RealmUID:  string(s.RealmUID),
		Issuer:    s.Issuer,
		Subject:   s.Subject,
		ClientID:  s.ClientID,
		ClientUID: string(s.UID),
	}, nil
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
		Namespace:        c.Namespace,
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
		Identities:       identities(c),
		Claims:           record.EncodeClaims(c.Claims),
		DPoP:             c.DPoP,
	}, nil
}

func identities(c record.Client) []registry.Identity {
	var all []registry.Identity
	for _, i := range c.Identities {
		all = append(all, registry.Identity{ID: i.ID, Issuer: i.Issuer, Subject: i.Subject, Claims: i.Claims})
	}
	return all
}

func serviceAccounts(c record.Client) []clientassertion.ServiceAccount {
	var accounts []clientassertion.ServiceAccount
	for _, a := range c.ServiceAccounts {
		accounts = append(accounts, clientassertion.ServiceAccount{Namespace: a.Namespace, Name: a.Name, UID: string(a.UID)})
	}
	return accounts
}
