package apiclient

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/provided"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Objects contains everything that a decision about an ApiClient depends on.
type Objects struct {
	Client *v1alpha1.ApiClient
	// Realm is the Realm that the client refers to, with its status; nil if it does not exist.
	Realm *v1alpha1.Realm
	// Namespaces contains the labels of all namespaces, by name.
	Namespaces map[string]map[string]string
	// Records contains the records of all clients and subjects, by name. All token servers serve
	// them.
	Records map[string]*corev1.Secret
	// Secrets contains the Secrets of the client's namespace, and Accounts the UIDs of its service
	// accounts, by name.
	Secrets  map[string]*corev1.Secret
	Accounts map[string]types.UID
	// Pending is the secret that the previous Evaluation left pending; empty if there is none.
	Pending string
	// Authority contains the certificates that clients must trust in PEM.
	Authority []byte
}

// Evaluation is a decision about an ApiClient.
type Evaluation struct {
	// Record is the desired record; nil leaves it unchanged, even if there is none. Release means
	// that the record is deleted.
	Record  *record.Client
	Release bool
	// Subjects are the desired records of subjects, and ObsoleteSubjects those to delete.
	Subjects         []record.Subject
	ObsoleteSubjects []corev1.Secret
	// Credentials is the desired credentials Secret; nil leaves it unchanged. Obsolete are the
	// credentials Secrets to delete.
	Credentials *corev1ac.SecretApplyConfiguration
	Obsolete    []corev1.Secret
	// Pending is the secret in Record that is delivered after all token servers serve the record;
	// empty if there is none. Evaluate must then be called again with it.
	Pending string
	// Status is the status after everything is written and all token servers serve the record.
	Status v1alpha1.ApiClientStatus
	// RequeueAfter is the time until the decision may change although the objects do not; zero if it
	// never does.
	RequeueAfter time.Duration
}

// Evaluate decides about an ApiClient as Reconcile does, but without a cluster. It is a pure function,
// and fails only if the random source does.
func Evaluate(o Objects, instance *config.Instance, now time.Time, random io.Reader) (Evaluation, error) {
	seen, err := o.observe(instance, random)
	if err != nil {
		return Evaluation{}, err
	}
	d, err := decide(seen, instance, now, random)
	if err != nil {
		return Evaluation{}, fmt.Errorf("planning the secrets of ApiClient %s: %w", client.ObjectKeyFromObject(o.Client), err)
	}
	done := applied{recorded: d.record != nil}
	if done.recorded || seen.record != nil && !d.release {
		done.state = new(acknowledgement.Acknowledged)
	}
	return Evaluation{
		Record: d.record, Release: d.release, Subjects: d.subjects, ObsoleteSubjects: d.obsoleteSubjects,
		Credentials: d.credentials, Obsolete: d.obsolete, Pending: d.plan.Pending,
		Status: status(seen, d, done, instance, now), RequeueAfter: requeueAfter(o.Client, d, now),
	}, nil
}

// observe returns the state that gather would read.
func (o *Objects) observe(instance *config.Instance, random io.Reader) (observed, error) {
	c := o.Client
	seen := observed{
		client: c, realm: o.Realm, namespaceLabels: o.Namespaces[c.Namespace],
		accounts: map[string]types.UID{}, pending: o.Pending, authority: o.Authority,
	}
	if other := resembledNamespace(c); o.Namespaces[other] != nil {
		seen.otherNamespace = other
	}
	if o.Realm != nil {
		seen.read(o.Records[record.ClientSecretName(o.Realm.UID, c.EffectiveClientID())])
	}
	if seen.record != nil {
		seen.state, seen.otherNamespace = acknowledgement.Acknowledged, ""
	}
	for _, name := range listedAccounts(c) {
		if uid, ok := o.Accounts[name]; ok {
			seen.accounts[name] = uid
		}
	}
	if err := o.observeSecrets(&seen, random); err != nil {
		return observed{}, err
	}
	o.observeSubjects(&seen, instance)
	return seen, nil
}

func (o *Objects) observeSecrets(seen *observed, random io.Reader) error {
	for _, secret := range o.Secrets {
		if isOwned(secret, seen.client) {
			seen.owned = append(seen.owned, *secret)
		}
	}
	slices.SortFunc(seen.owned, func(a, b corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	if seen.client.GeneratesSecret() {
		seen.credentials = o.Secrets[seen.client.EffectiveSecretName()]
		return nil
	}
	if len(seen.owned) > 0 {
		seen.credentials = &seen.owned[0]
	}
	reference := secretSource(seen.client).Provided
	if reference == nil {
		return nil
	}
	seen.provided = o.Secrets[reference.SecretRef.Name]
	if seen.provided == nil || !provided.Readable(seen.provided) || seen.providedUnchanged() {
		return nil
	}
	var err error
	seen.value, err = provided.Hash(seen.provided.Data, providedKey(seen.client), seen.knownHash(), random)
	return err
}

func (o *Objects) observeSubjects(seen *observed, instance *config.Instance) {
	for _, secret := range o.Records {
		if record.KindOf(secret) == record.KindSubject && record.OwnerName(secret) == client.ObjectKeyFromObject(seen.client) {
			seen.ownSubjects = append(seen.ownSubjects, *secret)
		}
	}
	if accepted(*seen, instance).Status != metav1.ConditionTrue {
		return
	}
	for _, s := range listedSubjects(seen) {
		seen.readSubject(s, o.Records[record.SubjectSecretName(seen.realm.UID, s.issuer, s.subject)])
	}
}
