package apiclient

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// subject identifies the tokens that select a client without a client ID. The issuer is the "iss"
// claim, or "kubernetes" for service accounts of the cluster.
type subject struct{ issuer, subject string }

func compareSubjects(a, b subject) int {
	return cmp.Or(cmp.Compare(a.issuer, b.issuer), cmp.Compare(a.subject, b.subject))
}

// listedSubjects returns the exact subjects of the client's identities and existing service accounts,
// sorted. Identities that match claims have none: to find a client by claims, a token server would
// have to try all clients, and any of them could match the tokens of another one.
func listedSubjects(seen *observed) []subject {
	var listed []subject
	for _, identity := range identities(seen) {
		if identity.Subject != "" {
			listed = append(listed, subject{identity.Issuer, identity.Subject})
		}
	}
	for _, account := range serviceAccounts(seen) {
		listed = append(listed, subject{v1alpha1.IssuerKubernetes, accountPrefix + account.Namespace + ":" + account.Name})
	}
	slices.SortFunc(listed, compareSubjects)
	return slices.Compact(listed)
}

// gatherSubjects reads the records of the client's subjects. If the client would acquire a subject,
// gatherSubjects reads the Realm again from the API server: with a grant that only the cache still
// contains, the client could take a subject and keep it.
func (r *Reconciler) gatherSubjects(ctx context.Context, seen *observed) error {
	var err error
	if seen.ownSubjects, err = r.Records.OfOwner(ctx, record.KindSubject, client.ObjectKeyFromObject(seen.client)); err != nil {
		return err
	}
	free, err := r.lookUpSubjects(ctx, seen)
	if err != nil || !free {
		return err
	}
	if err := r.readLiveRealm(ctx, seen); err != nil {
		return err
	}
	_, err = r.lookUpSubjects(ctx, seen)
	return err
}

// lookUpSubjects reads who holds the client's subjects, and reports whether any of them is free. A
// client that is not Accepted acquires nothing, so it costs no reads of missing records, which the
// API server would serve.
func (r *Reconciler) lookUpSubjects(ctx context.Context, seen *observed) (free bool, err error) {
	seen.subjects, seen.subjectHolders = nil, nil
	if accepted(*seen, r.Instance).Status != metav1.ConditionTrue {
		return false, nil
	}
	for _, s := range listedSubjects(seen) {
		secret, err := r.Records.Get(ctx, record.SubjectSecretName(seen.realm.UID, s.issuer, s.subject))
		if err != nil {
			return false, err
		}
		free = seen.readSubject(s, secret) || free
	}
	return free, nil
}

// readSubject stores who holds a subject, and reports whether it is free. The Secret is the subject's
// record and may be nil.
func (o *observed) readSubject(s subject, secret *corev1.Secret) (free bool) {
	if secret == nil {
		return true
	}
	body, err := record.ReadSubject(secret)
	owner := types.NamespacedName{Namespace: body.Namespace, Name: body.Name}
	if err != nil {
		owner = record.OwnerName(secret)
	}
	if owner == client.ObjectKeyFromObject(o.client) && (err != nil || body.UID == o.client.UID) {
		if o.subjects == nil {
			o.subjects = map[subject]*corev1.Secret{}
		}
		o.subjects[s] = secret
		return false
	}
	if o.subjectHolders == nil {
		o.subjectHolders = map[subject]types.NamespacedName{}
	}
	o.subjectHolders[s] = owner
	return false
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
			RealmUID: seen.realm.UID, RealmName: seen.realm.Name, Issuer: s.issuer, Subject: s.subject,
			ClientID: c.EffectiveClientID(), UID: c.UID, Namespace: c.Namespace, Name: c.Name,
		})
	}
	return wanted
}

// obsoleteSubjects returns the records of subjects that the client gives up.
func obsoleteSubjects(seen *observed) []corev1.Secret {
	if seen.realm == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(seen.ownSubjects), func(secret corev1.Secret) bool {
		return keepsSubject(seen.realm, seen.client, &secret)
	})
}

// keepsSubject reports whether a client keeps a subject that it holds: as long as its spec lists the
// subject and the Realm does not release the client. It keeps the subject of an issuer that the Realm
// no longer defines, because a mistake in the Realm must not give it to another tenant. It also
// keeps an unreadable record, whose subject is unknown.
func keepsSubject(realm *v1alpha1.Realm, c *v1alpha1.ApiClient, secret *corev1.Secret) bool {
	if released(realm, c) {
		return false
	}
	body, err := record.ReadSubject(secret)
	if err != nil {
		return true
	}
	if body.Issuer == v1alpha1.IssuerKubernetes {
		return slices.Contains(listedAccounts(c), accountNamed(c.Namespace, body.Subject))
	}
	return slices.ContainsFunc(c.Spec.FederatedIdentities, func(identity v1alpha1.FederatedIdentity) bool {
		if identity.Issuer == v1alpha1.IssuerKubernetes || identity.Subject != body.Subject {
			return false
		}
		issuer := trustedIssuer(realm, identity.Issuer)
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
	return " Other clients hold these subjects, so requests with them must send client_id to get this client: " + enumerate(held) + "."
}

// subjectKeys returns the index keys of bySubject. They contain no issuer, because its name means
// something only in the Realm.
func subjectKeys(obj client.Object) []string {
	c, ok := obj.(*v1alpha1.ApiClient)
	if !ok {
		return nil
	}
	var keys []string
	for _, identity := range c.Spec.FederatedIdentities {
		if identity.Subject != "" {
			keys = append(keys, subjectKey(c.Spec.RealmRef.Name, identity.Subject))
		}
	}
	for _, name := range listedAccounts(c) {
		keys = append(keys, subjectKey(c.Spec.RealmRef.Name, accountPrefix+c.Namespace+":"+name))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func subjectKey(realm, subject string) string { return realm + "/" + subject }

// clientsWaitingForSubject returns the ApiClients that list the subject of a deleted record. One of
// them can acquire it.
func (r *Reconciler) clientsWaitingForSubject(ctx context.Context, secret *corev1.Secret) []reconcile.Request {
	body, err := record.ReadSubject(secret)
	if err != nil {
		return r.requests(ctx) // Its subject is unknown, and such records are rarely deleted.
	}
	return r.requests(ctx, client.MatchingFields{bySubject: subjectKey(body.RealmName, body.Subject)})
}
