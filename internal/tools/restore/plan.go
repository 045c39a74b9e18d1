package restore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

const fieldOwner = client.FieldOwner(gitops.FieldOwnerPluginCreate)

// livingAge is the age from which a key that is not in the backup means that a realm is in use. A realm
// that GitOps creates shortly before a restore has only younger keys.
const livingAge = time.Hour

// plan is a restore that was checked against the state of the cluster.
type plan struct {
	*Restore

	live   *live
	report *Report
	rows   rows
	// problems are the reasons why the backup can't be restored.
	problems []error
	// ownKeys says for each realm which of its keys is not in the backup and older than livingAge.
	ownKeys map[string]string
	// changed are the realms of which a record with keys or secrets changes.
	changed map[string]bool
}

// plan reads the cluster and checks every entry of the backup against it.
//
// Errors: ErrRejected.
func (r *Restore) plan(ctx context.Context) (*plan, error) {
	l, err := readLive(ctx, r.Client, r.RecordsNamespace)
	if err != nil {
		return nil, err
	}
	p := &plan{
		Restore: r, live: l, report: &Report{BackupTime: r.Contents.Header.CreatedAt, Objects: []*Object{}}, rows: rows{},
		ownKeys: map[string]string{}, changed: map[string]bool{},
	}
	err = errors.Join(
		r.Source.Each(func(entry *backup.Entry) error { return p.checkObject(ctx, entry) }, backup.KindRealm, backup.KindClient),
		r.Source.Each(p.checkRealmRecord, backup.KindRealmRecord),
		r.Source.Each(p.checkClientRecord, backup.KindClientRecord),
	)
	if err != nil {
		return nil, err
	}
	p.checkLiving()
	return p, rejected(p.problems)
}

func rejected(problems []error) error {
	const most = 5
	if len(problems) == 0 {
		return nil
	}
	var texts []string
	for _, problem := range problems[:min(most, len(problems))] {
		texts = append(texts, problem.Error())
	}
	if more := len(problems) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more problems", more))
	}
	return &rejection{text: ErrRejected.Error() + ": " + strings.Join(texts, "; "), problems: problems}
}

// rejection is ErrRejected with all its causes. Its text has only the first ones.
type rejection struct {
	text     string
	problems []error
}

// Error implements error.
func (r *rejection) Error() string { return r.text }

// Unwrap returns ErrRejected and the causes.
func (r *rejection) Unwrap() []error { return append([]error{ErrRejected}, r.problems...) }

// checkObject checks a Realm or ApiClient. The API server checks one that must be created.
func (p *plan) checkObject(ctx context.Context, entry *backup.Entry) error {
	manifest, err := entry.Manifest()
	if err != nil {
		return err
	}
	if p.Realm != "" && p.Realm != realmOf(manifest) {
		return nil
	}
	row := &Object{Kind: string(entry.Kind), Namespace: entry.Namespace, Name: entry.Name, Result: Created, Data: None}
	p.report.Objects = append(p.report.Objects, row)
	p.rows[row.Kind+" "+row.String()] = row
	if existing := p.object(entry.Kind, row.String()); existing != nil {
		row.Result, err = compare(existing, manifest)
	} else {
		err = p.create(ctx, manifest, client.DryRunAll)
	}
	return p.note(row, err)
}

// note remembers a problem of one object. It returns an error that concerns all of them.
func (p *plan) note(row *Object, err error) error {
	if err = row.failed(err, Skipped, NotRestored); err == nil || !single(err) {
		return err
	}
	p.problems = append(p.problems, err)
	return nil
}

// single reports whether an error concerns one object. Others, such as a lost connection or a missing
// permission, concern all of them.
func single(err error) bool {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return !notAuthorized(status) && !slices.ContainsFunc([]func(error) bool{
			apierrors.IsUnauthorized, apierrors.IsTooManyRequests, apierrors.IsServiceUnavailable, apierrors.IsTimeout, apierrors.IsServerTimeout,
			apierrors.IsInternalError, // such as an admission webhook that can't be reached
		}, func(is func(error) bool) bool { return is(err) })
	}
	return slices.ContainsFunc([]error{ErrDeleting, ErrClientIDHeld, ErrOtherClient, ErrTooManyKeys}, func(e error) bool { return errors.Is(err, e) })
}

// notAuthorized reports whether a request to create an object was forbidden before the API server read the
// object, so the details lack its name. Those of an admission plugin have the name, and an admission webhook
// can return none.
func notAuthorized(err *apierrors.StatusError) bool {
	return apierrors.IsForbidden(err) && err.ErrStatus.Details != nil && err.ErrStatus.Details.Name == ""
}

// object returns an existing Realm or ApiClient, or nil.
func (p *plan) object(kind backup.Kind, name string) *liveObject {
	if kind == backup.KindRealm {
		return p.live.realms[name]
	}
	return p.live.clients[name]
}

func (p *plan) create(ctx context.Context, manifest *unstructured.Unstructured, options ...client.CreateOption) error {
	options = append(options, fieldOwner, client.FieldValidation(metav1.FieldValidationStrict))
	err := p.Client.Create(ctx, manifest, options...)
	status, ok := errors.AsType[*apierrors.StatusError](err)
	switch {
	case err == nil:
		return nil
	case ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces":
		return fmt.Errorf("create Namespace %s: %w", manifest.GetNamespace(), err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("create Namespace %s again after it is gone: %w", manifest.GetNamespace(), err)
	}
	return fmt.Errorf("creating it: %w", err)
}

func realmOf(manifest *unstructured.Unstructured) string {
	if backup.Kind(manifest.GetKind()) == backup.KindRealm {
		return manifest.GetName()
	}
	name, _, _ := unstructured.NestedString(manifest.Object, "spec", "realmRef", "name")
	return name
}

func compare(existing *liveObject, manifest *unstructured.Unstructured) (Result, error) {
	spec, err := backup.Spec(manifest)
	switch {
	case err != nil:
		return "", err
	case existing.deleting:
		return "", ErrDeleting
	case existing.spec != sha256.Sum256(spec):
		return Differs, nil
	}
	return Kept, nil
}

// data says what a step does to keys or secrets.
var data = map[step]Data{keep: Unchanged, put: Restored, add: Added}

func (p *plan) checkRealmRecord(entry *backup.Entry) error {
	body, err := entry.RealmRecord()
	if err != nil || p.Realm != "" && p.Realm != body.Name {
		return err
	}
	row, object := p.rows.of(backup.KindRealm, body.Name), p.live.realms[body.Name]
	row.Count = len(body.Keys)
	var current *liveRecord
	if object != nil {
		current = p.live.records[record.RealmRecordName(object.uid)]
	}
	todo := p.realmStep(entry, current)
	row.Data = data[todo]
	if todo != add {
		return nil
	}
	p.changed[body.Name] = true
	for _, own := range current.keys {
		if find(body.Keys, own.ID) == nil && p.Now().Sub(own.CreatedAt) > livingAge {
			p.ownKeys[body.Name] = fmt.Sprintf("its signing key %s of %s is not in the backup", own.ID, own.CreatedAt.UTC().Format(time.RFC3339))
		}
	}
	_, err = addKeys(current.keys, body, object.algorithm, p.Now())
	return p.note(row, err)
}

func (p *plan) checkClientRecord(entry *backup.Entry) error {
	body, err := entry.ClientRecord()
	if err != nil || p.Realm != "" && p.Realm != body.RealmName {
		return err
	}
	row := p.rows.of(backup.KindClient, body.Namespace+"/"+body.Name)
	if row == nil {
		return nil // The client has changed its realm.
	}
	realm := p.live.realms[body.RealmName]
	accepted, omitted := backup.AcceptedSecrets(body, p.Contents.Header.CreatedAt)
	row.Count = len(accepted)
	if row.Problem != "" {
		return nil
	}
	if realm == nil && p.rows.of(backup.KindRealm, body.RealmName) == nil {
		return nil // The record belongs to a deleted Realm.
	}
	var current *liveRecord
	if realm != nil {
		current = p.live.records[record.ClientRecordName(realm.uid, body.ClientID)]
	}
	todo, err := p.clientStep(entry, body, p.live.clients[row.String()], current)
	if err != nil {
		return p.note(row, err)
	}
	if row.Data = data[todo]; todo != keep {
		for _, s := range omitted {
			row.Omitted = append(row.Omitted, s.ID)
		}
	}
	if todo == add {
		p.changed[body.RealmName] = p.changed[body.RealmName] || !p.restoredBefore(realm)
	}
	return nil
}

// restoredBefore reports whether the keys of a Realm were restored from this backup or a newer one.
func (p *plan) restoredBefore(realm *liveObject) bool {
	current := p.live.records[record.RealmRecordName(realm.uid)]
	return current != nil && !current.restoredFrom.Before(p.Contents.Header.CreatedAt)
}

// checkLiving rejects changes of realms that are in use.
func (p *plan) checkLiving() {
	for _, object := range p.report.Objects {
		if backup.Kind(object.Kind) != backup.KindRealm || !p.changed[object.Name] || p.Replace {
			continue
		}
		for _, reason := range []string{p.ownKeys[object.Name], p.live.used[object.Name]} {
			if reason != "" {
				p.problems = append(p.problems, fmt.Errorf("restoring Realm %s: %w: %s; to let the signing key of the backup replace its own, and to accept the client secrets of the backup in addition, use --replace", object.Name, ErrLiving, reason))
				break
			}
		}
	}
}

// step is what a restore does to a record.
type step int

const (
	// keep leaves the record as it is.
	keep step = iota
	// put writes the record of the backup. There is none, or one that can't be used.
	put
	// add adds the keys or secrets of the backup to the record.
	add
)

// realmStep decides about the record of a Realm; current is nil if there is none.
func (r *Restore) realmStep(entry *backup.Entry, current *liveRecord) step {
	switch {
	case current == nil || current.unreadable:
		return put
	case current.uid == entry.UID: // Its keys were never lost. Those that it no longer has must not return.
		return keep
	case !r.Replace && !current.restoredFrom.Before(r.Contents.Header.CreatedAt):
		return keep
	}
	return add
}

// clientStep decides about the record of an ApiClient; object and current are nil if there is none.
//
// Errors: ErrOtherClient, ErrClientIDHeld.
func (r *Restore) clientStep(entry *backup.Entry, body record.Client, object *liveObject, current *liveRecord) (step, error) {
	switch {
	case object != nil && (object.realm != body.RealmName || object.clientID != body.ClientID):
		return keep, fmt.Errorf("%w: it has client ID %q in Realm %s, and the backup has %q in Realm %s; to restore the client of the backup, delete the ApiClient",
			ErrOtherClient, object.clientID, object.realm, body.ClientID, body.RealmName)
	case current != nil && current.owner != body.Namespace+"/"+body.Name:
		return keep, fmt.Errorf("%w: ApiClient %s holds %q in Realm %s; delete that ApiClient, or release the client ID with \"kubectl realmkeeper release\"",
			ErrClientIDHeld, current.owner, body.ClientID, body.RealmName)
	case current == nil || current.unreadable || object == nil || current.client != object.uid:
		return put, nil
	case current.uid == entry.UID: // Its secrets were never lost. Those that it no longer has must not return.
		return keep, nil
	case !r.Replace && !current.restoredFrom.Before(r.Contents.Header.CreatedAt):
		return keep, nil
	}
	return add, nil
}

func find(keys []signingkey.Key, id string) *signingkey.Key {
	for i := range keys {
		if keys[i].ID == id {
			return &keys[i]
		}
	}
	return nil
}
