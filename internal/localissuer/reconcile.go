package localissuer

import (
	"crypto/rand"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/realm"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

const (
	// maxRounds limits the rounds of one reconcile. Several rounds are needed because evaluations
	// depend on each other: a Realm, its clients, the delivery of their secrets, and clients that
	// wait for a client ID.
	maxRounds = 20
	// maxWait is the longest time between two rounds. Timers can stop while the machine sleeps, so it
	// also limits how late a round is after the machine resumes.
	maxWait = time.Minute
	minWait = 10 * time.Millisecond
)

// reconcile evaluates all objects, in rounds, until nothing changes. It then makes the token server
// serve the result, writes it to files, and reports it. It returns the time until the next round.
func (i *issuer) reconcile() (time.Duration, error) {
	wait := maxWait
	for range maxRounds {
		changed, next, err := i.round()
		if err != nil {
			return 0, err
		}
		wait = next
		if !changed {
			break
		}
	}
	renew, err := i.renewCertificate()
	if err != nil {
		return 0, err
	}
	i.loadRegistry()
	if err := i.state.save(); err != nil {
		return 0, err
	}
	if err := i.writeCredentials(); err != nil {
		return 0, err
	}
	i.reporter.report(i)
	return max(minWait, min(wait, renew, maxWait)), nil
}

// round evaluates each object once. It reports whether anything changed, and the time until the next
// scheduled change.
func (i *issuer) round() (changed bool, next time.Duration, err error) {
	next = maxWait
	changed = i.collect()
	for _, k := range sorted(i.objects.realms) {
		c, after, err := i.decideRealm(k)
		if err != nil {
			return false, 0, err
		}
		changed, next = changed || c, earlier(next, after)
	}
	for _, k := range i.objects.order {
		c, after, err := i.decideClient(k)
		if err != nil {
			return false, 0, err
		}
		changed, next = changed || c, earlier(next, after)
	}
	return changed, next, nil
}

func earlier(a, b time.Duration) time.Duration {
	if b <= 0 {
		return a
	}
	return min(a, b)
}

func sorted[T any](objects map[key]T) []key {
	return slices.SortedFunc(maps.Keys(objects), func(a, b key) int { return strings.Compare(a.String(), b.String()) })
}

func (i *issuer) decideRealm(k key) (changed bool, next time.Duration, err error) {
	r := i.objects.realms[k]
	e, err := realm.Evaluate(realm.Objects{
		Realm: r, Record: i.state.Records[record.RealmSecretName(r.UID)], Fetched: realm.Fetched(r, i.fetcher),
	}, i.instance, i.now(), rand.Reader)
	if err != nil {
		return false, 0, err
	}
	i.fetcher.Want(r.Name, e.Fetch)
	if e.Record != nil {
		desired, err := record.ForRealm(i.instance.RecordsNamespace, r, *e.Record)
		if err != nil {
			return false, 0, err
		}
		if changed, err = i.put(i.state.Records, *desired.Name, desired); err != nil {
			return false, 0, err
		}
	}
	changed = changed || !equality.Semantic.DeepEqual(r.Status, e.Status)
	r.Status = e.Status
	return changed, e.RequeueAfter, nil
}

func (i *issuer) decideClient(k key) (changed bool, next time.Duration, err error) {
	c := i.objects.clients[k]
	e, err := apiclient.Evaluate(apiclient.Objects{
		Client: c, Realm: i.realmOf(c),
		Namespaces: i.objects.namespaces(), Records: i.state.Records,
		Secrets: i.secretsIn(c.Namespace), Accounts: i.accountsIn(c.Namespace),
		Pending: i.pending[k], Authority: i.state.Authority.Certificate,
	}, i.instance, i.now(), rand.Reader)
	if err != nil {
		return false, 0, err
	}
	if changed, err = i.write(c, e); err != nil {
		return false, 0, err
	}
	changed = changed || i.pending[k] != e.Pending || !equality.Semantic.DeepEqual(c.Status, e.Status)
	i.pending[k], c.Status = e.Pending, e.Status
	return changed, e.RequeueAfter, nil
}

// write stores the result of the evaluation of a client, and reports whether anything has changed.
func (i *issuer) write(c *v1alpha1.ApiClient, e apiclient.Evaluation) (changed bool, err error) {
	if r := i.realmOf(c); e.Release && r != nil {
		changed = remove(i.state.Records, record.ClientSecretName(r.UID, c.EffectiveClientID()))
	}
	desired, err := i.records(e)
	if err != nil {
		return false, err
	}
	for _, secret := range desired {
		put, err := i.put(i.state.Records, *secret.Name, secret)
		if err != nil {
			return false, err
		}
		changed = changed || put
	}
	for n := range e.ObsoleteSubjects {
		changed = remove(i.state.Records, e.ObsoleteSubjects[n].Name) || changed
	}
	if e.Credentials != nil {
		put, err := i.put(i.state.Credentials, c.Namespace+"/"+*e.Credentials.Name, e.Credentials)
		if err != nil {
			return false, err
		}
		changed = changed || put
	}
	for n := range e.Obsolete {
		changed = remove(i.state.Credentials, c.Namespace+"/"+e.Obsolete[n].Name) || changed
	}
	return changed, nil
}

// records returns the desired records of a client and its subjects.
func (i *issuer) records(e apiclient.Evaluation) ([]*corev1ac.SecretApplyConfiguration, error) {
	var desired []*corev1ac.SecretApplyConfiguration
	for _, body := range e.Subjects {
		secret, err := record.ForSubject(i.instance.RecordsNamespace, body)
		if err != nil {
			return nil, err
		}
		desired = append(desired, secret)
	}
	if e.Record != nil {
		secret, err := record.ForClient(i.instance.RecordsNamespace, *e.Record)
		if err != nil {
			return nil, err
		}
		desired = append(desired, secret)
	}
	return desired, nil
}

// realmOf returns the Realm that a client refers to, or nil.
func (i *issuer) realmOf(c *v1alpha1.ApiClient) *v1alpha1.Realm {
	return i.objects.realms[key{kindRealm, types.NamespacedName{Name: c.Spec.RealmRef.Name}}]
}

// put stores a Secret, and reports whether it has changed.
func (i *issuer) put(into map[string]*corev1.Secret, name string, desired *corev1ac.SecretApplyConfiguration) (bool, error) {
	secret, err := apply.Convert[corev1.Secret](desired)
	if err != nil {
		return false, err
	}
	secret.CreationTimestamp = metav1.NewTime(i.now().Truncate(time.Second))
	if before := into[name]; before != nil {
		secret.CreationTimestamp = before.CreationTimestamp
		if reflect.DeepEqual(before.Data, secret.Data) && equality.Semantic.DeepEqual(before.ObjectMeta, secret.ObjectMeta) {
			return false, nil
		}
	}
	into[name] = secret
	return true, nil
}

func remove(from map[string]*corev1.Secret, name string) bool {
	_, found := from[name]
	delete(from, name)
	return found
}

// collect deletes the records and credentials Secrets of objects that were removed.
func (i *issuer) collect() (changed bool) {
	for name, secret := range i.state.Records {
		if i.orphaned(secret) {
			changed = remove(i.state.Records, name) || changed
		}
	}
	for name, secret := range i.state.Credentials {
		owner := metav1.GetControllerOf(secret)
		c := i.objects.clients[key{kindClient, types.NamespacedName{Namespace: secret.Namespace, Name: owner.Name}}]
		if c == nil || c.UID != owner.UID {
			changed = remove(i.state.Credentials, name) || changed
		}
	}
	for k := range i.pending {
		if i.objects.clients[k] == nil {
			delete(i.pending, k)
		}
	}
	return changed
}

func (i *issuer) orphaned(secret *corev1.Secret) bool {
	owner := record.OwnerName(secret)
	if record.KindOf(secret) == record.KindRealm {
		r := i.objects.realms[key{kindRealm, owner}]
		return r == nil || r.UID != record.RealmUID(secret)
	}
	var uid, realmUID types.UID
	if c := i.objects.clients[key{kindClient, owner}]; c != nil {
		uid = c.UID
		if r := i.realmOf(c); r != nil {
			realmUID = r.UID
		}
	}
	return apiclient.Orphaned(uid, realmUID)(secret)
}

// secretsIn returns the Secrets of a namespace. A Secret in a file hides the credentials Secret with
// the same name, because it would replace that Secret in a cluster.
func (i *issuer) secretsIn(namespace string) map[string]*corev1.Secret {
	secrets := map[string]*corev1.Secret{}
	for _, secret := range i.state.Credentials {
		if secret.Namespace == namespace {
			secrets[secret.Name] = secret
		}
	}
	for k, secret := range i.objects.secrets {
		if k.Namespace == namespace {
			secrets[k.Name] = secret
		}
	}
	return secrets
}

func (i *issuer) accountsIn(namespace string) map[string]types.UID {
	accounts := map[string]types.UID{}
	for k, uid := range i.objects.accounts {
		if k.Namespace == namespace {
			accounts[k.Name] = uid
		}
	}
	return accounts
}
