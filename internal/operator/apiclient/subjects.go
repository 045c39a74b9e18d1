package apiclient

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// listedSubjects returns the exact subjects of the client's identities and existing service accounts,
// sorted. Identities that match claims have none: to find a client by claims, a token server would
// have to try all clients, and any of them could match the tokens of another one.
func listedSubjects(seen *observed) []subject {
	var listed []subject
	for _, identity := range identities(seen) {
		switch account := identity.ServiceAccount; {
		case account != nil:
			listed = append(listed, subject{v1beta1.IssuerKubernetes, v1beta1.IssuerKubernetes, accountSubject(account.Namespace, account.Name)})
		case identity.Subject != "":
			listed = append(listed, subject{identity.IssuerName, identity.Issuer, identity.Subject})
		}
	}
	slices.SortFunc(listed, compareSubjects)
	return slices.Compact(listed)
}

// unknownSubjects returns the listed subjects of which it isn't known who holds them.
func (seen *observed) unknownSubjects() []subject {
	return slices.DeleteFunc(listedSubjects(seen), func(s subject) bool {
		_, others := seen.subjectHolders[s]
		return seen.subjects[s] != nil || others || seen.freeSubjects[s]
	})
}

// wantedSubjects returns the records of the subjects that an accepted client holds or acquires.
func wantedSubjects(seen *observed) []record.Subject {
	c := seen.client
	var wanted []record.Subject
	for _, s := range listedSubjects(seen) {
		if _, held := seen.subjectHolders[s]; held {
			continue
		}
		wanted = append(wanted, record.Subject{
			RealmUID: seen.realm.UID, RealmName: seen.realm.Name, IssuerName: s.issuerName, Issuer: s.issuer, Subject: s.subject,
			ClientID: c.EffectiveClientID(), UID: c.UID, Namespace: c.Namespace, Name: c.Name,
		})
	}
	return wanted
}

// obsoleteSubjects returns the records of subjects that the client gives up.
func obsoleteSubjects(seen *observed) []*corev1.Secret {
	if seen.realm == nil {
		return nil
	}
	until := seen.releaseTime()
	return slices.DeleteFunc(slices.Clone(seen.subjectsOfName), func(secret *corev1.Secret) bool {
		return !acquiredBy(secret, until) && keepsSubject(seen.realm, seen.client, secret)
	})
}

// keepsSubject reports whether a client keeps a subject that it holds: as long as its spec lists the
// subject. It keeps the subject of an issuer that the Realm no longer defines, because a mistake in the
// Realm must not give it to another tenant. It also keeps an unreadable record, whose subject is unknown.
func keepsSubject(realm *v1beta1.Realm, c *v1beta1.ApiClient, secret *corev1.Secret) bool {
	body, err := record.ReadSubject(secret)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(c.Spec.Identities, func(identity v1beta1.Identity) bool {
		if identity.ServiceAccount.Name != "" {
			return body.IssuerName == v1beta1.IssuerKubernetes && body.Subject == accountSubject(c.Namespace, identity.ServiceAccount.Name)
		}
		if identity.Issuer != body.IssuerName || identity.Subject != body.Subject {
			return false
		}
		issuer := authenticatingIssuer(realm, identity.Issuer)
		return issuer == nil || string(issuer.Issuer) == body.Issuer
	})
}

// subjectNote is a sentence about the subjects of the client that other clients hold; empty if there
// are none. Requests for them need a client ID.
func subjectNote(seen *observed) string {
	var held []string
	for _, s := range listedSubjects(seen) {
		if holder, ok := seen.subjectHolders[s]; ok {
			held = append(held, fmt.Sprintf("%q (%s)", s.subject, holder))
		}
	}
	if len(held) == 0 {
		return ""
	}
	return " Other clients hold these subjects, so requests with them must send client_id to get this client: " + condition.Names(held) + "."
}
