package feed

import (
	"slices"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// prepared holds records, converted for the registry.
type prepared struct {
	realms     []*registry.Realm
	clients    []*registry.Client
	subjects   []*registry.Subject
	indexes    []registry.Index
	unreadable map[string]error // by record name
	unenforced []string         // names of the records with an unknown restriction
	beacon     listedBeacon
}

// listedBeacon is the beacon in a list of the records.
type listedBeacon struct {
	version string // resource version; empty if there is no beacon
	written time.Time
}

// unreadable is a record that can't be converted.
type unreadable struct {
	record string
	err    error
}

// add adds a converted record.
func (p *prepared) add(converted any) {
	switch of := converted.(type) {
	case *registry.Realm:
		p.realms = append(p.realms, of)
		if of.Unenforced {
			p.unenforced = append(p.unenforced, of.Record)
		}
	case *registry.Client:
		p.clients = append(p.clients, of)
		if of.Unenforced {
			p.unenforced = append(p.unenforced, of.Record)
		}
	case *registry.Subject:
		p.subjects = append(p.subjects, of)
	case registry.Index:
		p.indexes = append(p.indexes, of)
	case listedBeacon:
		p.beacon = of
	case unreadable:
		if p.unreadable == nil {
			p.unreadable = map[string]error{}
		}
		p.unreadable[of.record] = of.err
	}
}

// names returns the names of the readable records.
func (p *prepared) names() map[string]bool {
	names := make(map[string]bool, p.readable())
	for _, realm := range p.realms {
		names[realm.Record] = true
	}
	for _, client := range p.clients {
		names[client.Record] = true
	}
	for _, subject := range p.subjects {
		names[subject.Record] = true
	}
	for _, index := range p.indexes {
		names[index.Record] = true
	}
	return names
}

// readable returns the number of readable records.
func (p *prepared) readable() int {
	return len(p.realms) + len(p.clients) + len(p.subjects) + len(p.indexes)
}

func (p *prepared) isUnreadable(name string) bool { return p.unreadable[name] != nil }

// listed describes a list for the snapshot, which keeps the saved versions of unreadable records.
func (p *prepared) listed(version string) snapshot.Listed {
	names := sync.OnceValue(p.names) // rarely needed
	l := snapshot.Listed{Version: version, Size: p.readable(), Contains: func(name string) bool { return names()[name] }}
	if len(p.unreadable) > 0 {
		l.Keep = p.isUnreadable
	}
	return l
}

// prepare converts a record for the registry: to a *registry.Realm, *registry.Client, *registry.Subject, or
// registry.Index. The error is record.ErrUnreadable.
func prepare(secret *corev1.Secret) (converted any, err error) {
	switch record.KindOf(secret) {
	case record.KindRealm:
		return prepareRealm(secret)
	case record.KindSubject:
		return prepareSubject(secret)
	case record.KindIndex:
		return prepareIndex(secret.Name)
	default:
		return prepareClient(secret)
	}
}

func prepareRealm(secret *corev1.Secret) (*registry.Realm, error) {
	r, err := record.ReadRealm(secret)
	if err != nil {
		return nil, err
	}
	unenforced := cannotEnforce(r.Disabled, r.Restrictions)
	return registry.NewRealm(registry.RealmSettings{
		Record:           secret.Name,
		UID:              string(record.RealmUID(secret)),
		Name:             r.Name,
		Issuer:           r.Issuer,
		CreatedAt:        secret.CreationTimestamp.Time, // set by the API server, from its clock
		Disabled:         r.Disabled || unenforced,
		Unenforced:       unenforced,
		TokensValidAfter: r.TokensValidAfter,
		TokensPerSecond:  r.TokensPerSecond,
		TokenLifetime:    time.Duration(r.TokenLifetimeSeconds) * time.Second,
		Scopes:           r.Scopes,
		KeyCache:         time.Duration(r.KeyCacheSeconds) * time.Second,
		Keys:             r.Keys,
		ClusterIssuerURL: r.ClusterIssuerURL,
		Audiences:        r.Audiences,
		Issuers:          issuers(r),
		Exchanges:        r.Exchanges,
		StatusLists:      r.StatusLists,
	})
}

// isUnenforced reports whether the record of a converted one has an unknown restriction.
func isUnenforced(converted any) bool {
	switch of := converted.(type) {
	case *registry.Realm:
		return of.Unenforced
	case *registry.Client:
		return of.Unenforced
	}
	return false
}

// cannotEnforce reports whether a restriction can't be enforced. If nothing is granted, every restriction is.
func cannotEnforce(disabled bool, restrictions record.Restrictions) bool {
	return !disabled && restrictions.Unknown() != nil
}

func issuers(r record.Realm) []registry.Issuer {
	var trusted []registry.Issuer
	for _, i := range r.Issuers {
		trusted = append(trusted, registry.Issuer(i))
	}
	return trusted
}

func prepareSubject(secret *corev1.Secret) (*registry.Subject, error) {
	s, err := record.ReadSubject(secret)
	if err != nil {
		return nil, err
	}
	return &registry.Subject{
		Record:     secret.Name,
		Version:    secret.ResourceVersion,
		RealmUID:   shared(string(s.RealmUID)),
		IssuerName: shared(s.IssuerName),
		Issuer:     shared(s.Issuer),
		Subject:    s.Subject,
		ClientID:   s.ClientID,
		ClientUID:  string(s.UID),
	}, nil
}

// prepareIndex needs only the name of a record, so an index counts as held even if the record is damaged.
func prepareIndex(name string) (registry.Index, error) {
	realm, index, err := record.ParseIndexName(name)
	if err != nil {
		return registry.Index{}, err
	}
	return registry.Index{Record: name, RealmUID: shared(string(realm)), Index: index}, nil
}

func prepareClient(secret *corev1.Secret) (*registry.Client, error) {
	c, err := record.ReadClient(secret)
	if err != nil {
		return nil, err
	}
	accepted := c.Secrets
	if c.Restored != nil {
		accepted = slices.Concat(accepted, c.Restored.Secrets)
	}
	unenforced := cannotEnforce(c.Disabled, c.Restrictions)
	secrets := make([]clientsecret.Stored, 0, len(accepted))
	for _, s := range accepted {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, clientsecret.Stored{ID: s.ID, Verifier: verifier, ExpiresAt: s.ExpiresAt})
	}
	identity := string(c.Identity)
	if c.Identity == c.UID {
		identity = string(c.UID) // The same bytes, so that both need memory once.
	}
	return &registry.Client{
		Record:             secret.Name,
		Version:            secret.ResourceVersion,
		UID:                string(c.UID),
		Namespace:          shared(c.Namespace),
		Identity:           identity,
		RealmUID:           shared(string(c.RealmUID)),
		ID:                 c.ClientID,
		Disabled:           c.Disabled || unenforced,
		Unenforced:         unenforced,
		ExpiresAt:          c.ExpiresAt,
		TokensValidAfter:   c.TokensValidAfter,
		TokensPerSecond:    c.TokensPerSecond,
		TokenLifetime:      time.Duration(c.TokenLifetimeSeconds) * time.Second,
		Scopes:             slices.Sorted(slices.Values(allShared(c.Scopes))),
		Audiences:          allShared(c.Audiences),
		Introspects:        allShared(c.IntrospectionAudiences),
		DelegatedScopes:    allShared(c.DelegatedScopes),
		NamespaceSelectors: allShared(c.NamespaceSelectors),
		Secrets:            secrets,
		PublicKeys:         c.PublicKeys,
		Identities:         identities(c),
		Claims:             record.EncodeClaims(c.Claims),
		DPoP:               c.DPoP,
		StatusIndex:        c.StatusIndex,
	}, nil
}

// shared returns an equal string that clients share in memory. Many clients have the same realm,
// scopes, and audiences.
func shared(s string) string { return unique.Make(s).Value() }

func allShared(all []string) []string {
	if len(all) == 0 {
		return nil
	}
	exact := make([]string, 0, len(all))
	for _, s := range all {
		exact = append(exact, shared(s))
	}
	return exact
}

func identities(c record.Client) []registry.Identity {
	var all []registry.Identity
	for _, i := range c.Identities {
		identity := registry.Identity{ID: i.ID, IssuerName: shared(i.IssuerName), Issuer: shared(i.Issuer), Subject: i.Subject, Claims: i.Claims}
		if a := i.ServiceAccount; a != nil {
			identity.Account = clientassertion.ServiceAccount{Namespace: a.Namespace, Name: a.Name, UID: string(a.UID)}
		}
		all = append(all, identity)
	}
	return all
}
