package kubectlplugin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/backup"
	"github.com/realmkeeper/realmkeeper/internal/gitops"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// restoration is one restore.
type restoration struct {
	*restoreOptions

	c         *cluster
	namespace string // of the records
	contents  *backup.Contents
	live      *liveState
	report    *restoreReport
	// adoptable are the results for owners of restore records, by kind and name of the object.
	adoptable map[string]adoptable
	// rejected are the realms of another token service.
	rejected map[string]error
}

// adoptable is the outcome of the restore record of an object.
type adoptable struct {
	record  types.UID // of the restore record; empty if none is needed
	needed  bool
	count   int      // of keys or secrets
	omitted []string // IDs of secrets that are not restored
	err     error
}

// restore writes the restore records of all realms and clients, and then the missing objects. The
// operator thus finds the restore record when it first sees an object.
func (o *restoreOptions) restore(ctx context.Context, c *cluster, inst *installation, source *backupSource, contents *backup.Contents) error {
	rejected, err := checkServiceURLs(inst.serviceURL, contents, o.realm)
	if err != nil {
		return err
	}
	live, err := c.readState(ctx, inst.recordsNamespace)
	if err != nil {
		return err
	}
	live.again = o.again
	r := &restoration{
		restoreOptions: o, c: c, namespace: inst.recordsNamespace, contents: contents, live: live,
		report:    &restoreReport{BackupTime: metav1.NewTime(contents.Header.CreatedAt), DryRun: o.dryRun, Objects: []restoredObject{}, realm: o.realm},
		adoptable: map[string]adoptable{}, rejected: rejected,
	}
	err = errors.Join(ctx.Err(), r.apply(ctx, source))
	if err == nil && o.wait {
		err = r.awaitAdoption(ctx)
	}
	// After an error, the report shows what was done until then.
	if printed := o.print(r.report); err == nil {
		err = printed
	}
	if err == nil && r.report.Failed > 0 {
		return fmt.Errorf("%w: %d of %d objects; fix the causes and restore again", errRestore, r.report.Failed, len(r.report.Objects))
	}
	return err
}

var errRestore = errors.New("some objects were not restored")

func (r *restoration) apply(ctx context.Context, source *backupSource) error {
	steps := []struct {
		kind  backup.Kind
		visit func(context.Context, *backup.Entry) error
	}{
		{backup.KindRealmRecord, r.realmRecord},
		{backup.KindClientRecord, r.clientRecord},
		{backup.KindRealm, r.object},
		{backup.KindClient, r.object},
	}
	for _, step := range steps {
		if err := source.each(func(entry *backup.Entry) error { return step.visit(ctx, entry) }, step.kind); err != nil {
			return err
		}
	}
	return nil
}

func (r *restoration) realmRecord(ctx context.Context, entry *backup.Entry) error {
	body, err := entry.RealmRecord()
	if err != nil || r.realm != "" && r.realm != body.Name {
		return err
	}
	outcome := adoptable{count: len(body.Keys)}
	if err = r.rejected[body.Name]; err == nil {
		outcome.needed, err = r.live.planRealm(entry, body, r.contents.Header.CreatedAt)
	}
	if outcome.needed {
		outcome.record, err = r.createRecord(ctx, record.RestoreRealm(body, r.contents.Header.CreatedAt))
	}
	return r.adopt(kindRealm+" "+body.Name, outcome, err)
}

func (r *restoration) clientRecord(ctx context.Context, entry *backup.Entry) error {
	body, err := entry.ClientRecord()
	if err != nil || r.realm != "" && r.realm != body.RealmName {
		return err
	}
	restored := record.RestoreClient(body, r.contents.Header.CreatedAt)
	outcome := adoptable{count: len(restored.Client.Secrets)}
	if err = r.rejected[body.RealmName]; err == nil {
		outcome.needed, err = r.live.planClient(entry, body, r.contents.Header.CreatedAt)
	}
	if outcome.needed {
		outcome.omitted = omittedSecrets(body, r.contents.Header.CreatedAt)
		outcome.record, err = r.createRecord(ctx, restored)
	}
	return r.adopt(kindClient+" "+body.Namespace+"/"+body.Name, outcome, err)
}

// omittedSecrets returns the IDs of the secrets for which a client has no room.
func omittedSecrets(body record.Client, backupTime time.Time) []string {
	var ids []string
	_, omitted := record.RestorableSecrets(body, backupTime)
	for _, s := range omitted {
		ids = append(ids, s.ID)
	}
	return ids
}

// adopt remembers the outcome for an object. It returns an error if the restore can't continue.
func (r *restoration) adopt(object string, outcome adoptable, err error) error {
	if fatal(err) {
		return err
	}
	outcome.err = err
	r.adoptable[object] = outcome
	return nil
}

// fatal reports whether an error concerns more than one object, such as a lost connection.
func fatal(err error) bool {
	if err == nil {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return !slices.ContainsFunc([]error{errDeleting, errClientIDHeld, errOtherClient, errOtherService, errUnfinished, record.ErrRestore}, func(single error) bool { return errors.Is(err, single) })
	}
	missing := status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces"
	return apierrors.IsForbidden(err) && !missing && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == ""
}

// creation returns the options of a request that creates an object.
func (r *restoration) creation() []client.CreateOption {
	options := []client.CreateOption{client.FieldOwner(gitops.FieldOwnerPlugin), client.FieldValidation(metav1.FieldValidationStrict)}
	if r.dryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// object creates a Realm or ApiClient if it is missing.
func (r *restoration) object(ctx context.Context, entry *backup.Entry) error {
	manifest, err := entry.Manifest()
	if err != nil {
		return err
	}
	if r.realm != "" && r.realm != realmOf(manifest) {
		return nil
	}
	row := restoredObject{Kind: string(entry.Kind), Namespace: entry.Namespace, Name: entry.Name}
	outcome, found := r.adoptable[row.Kind+" "+entry.String()]
	row.Adoption, row.Count, row.record = adoptionOf(outcome, found), outcome.count, outcome.record
	row.Omitted = outcome.omitted
	err = cmp.Or(outcome.err, r.rejected[realmOf(manifest)])
	if err == nil {
		row.Result, err = r.create(ctx, entry, manifest)
		if fatal(err) {
			return err
		}
	}
	r.report.add(row, err)
	return nil
}

func realmOf(manifest *unstructured.Unstructured) string {
	if manifest.GetKind() == kindRealm {
		return manifest.GetName()
	}
	name, _, _ := unstructured.NestedString(manifest.Object, "spec", "realmRef", "name")
	return name
}

// create creates an object, unless it exists. It never changes one that exists.
func (r *restoration) create(ctx context.Context, entry *backup.Entry, manifest *unstructured.Unstructured) (result, error) {
	of := r.live.clients
	if entry.Kind == backup.KindRealm {
		of = r.live.realms
	}
	existing, exists := of[entry.String()]
	if exists {
		return compare(existing, manifest)
	}
	err := r.c.Create(ctx, manifest.DeepCopy(), r.creation()...)
	switch {
	case apierrors.IsAlreadyExists(err): // by another program in the meantime
		current := &unstructured.Unstructured{}
		current.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(manifest.GetKind()))
		if err := r.c.Get(ctx, client.ObjectKeyFromObject(manifest), current); err != nil {
			return "", wrap(err, "reading %s %s", entry.Kind, entry)
		}
		if existing, err = newLiveObject(current); err != nil {
			return "", err
		}
		return compare(existing, manifest)
	case isMissingNamespace(err):
		return "", fmt.Errorf("%w: create Namespace %s and restore again", err, entry.Namespace)
	}
	return resultCreated, wrap(err, "creating %s %s", entry.Kind, entry)
}

func compare(existing liveObject, manifest *unstructured.Unstructured) (result, error) {
	spec, err := backup.Spec(manifest)
	switch {
	case err != nil:
		return "", err
	case existing.deleting:
		return "", deleting(manifest.GetKind(), manifest.GetName())
	case existing.spec != sha256.Sum256(spec):
		return resultDiffers, nil
	}
	return resultKept, nil
}

func isMissingNamespace(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces"
}
