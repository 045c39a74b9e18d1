package kubectlplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/backup"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// backUp writes a backup of the cluster. It reads all objects in pages. Objects come before records,
// so that the backup never has the record of an object that it lacks.
func (c *cluster) backUp(ctx context.Context, out io.Writer, header backup.Header, recipients []age.Recipient) (*backupReport, error) {
	w, err := backup.NewWriter(out, header, recipients...)
	if err != nil {
		return nil, err
	}
	r := &backupReport{createdAt: header.CreatedAt}
	for _, kind := range []string{kindRealm, kindClient} {
		err := c.eachObject(ctx, kind, func(object *unstructured.Unstructured) error { return r.addObject(w, object) })
		if err != nil {
			return nil, err
		}
	}
	// Restore records come before the records that adopt them.
	unadopted := map[types.UID]string{}
	err = c.eachRecord(ctx, header.RecordsNamespace, record.KindRestore, func(secret *corev1.Secret) error {
		unadopted[secret.UID] = describe(secret)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range []record.Kind{record.KindRealm, record.KindClient} {
		err := c.eachRecord(ctx, header.RecordsNamespace, kind, func(secret *corev1.Secret) error {
			if restored := restoredFrom(secret); restored != nil {
				delete(unadopted, restored.From)
			}
			return r.addRecord(w, secret)
		})
		if err != nil {
			return nil, err
		}
	}
	r.unadopted = slices.Sorted(maps.Values(unadopted))
	if r.contents, err = w.Close(); err != nil {
		return nil, err
	}
	for realm, url := range r.contents.ServiceURLs {
		if header.ServiceURL != "" && url != header.ServiceURL {
			r.otherURL = append(r.otherURL, realm+" ("+url+")")
		}
	}
	slices.Sort(r.otherURL)
	return r, nil
}

func (r *backupReport) addObject(w *backup.Writer, object *unstructured.Unstructured) error {
	entry, err := backup.NewObject(object)
	if err != nil {
		return err
	}
	if object.GetDeletionTimestamp() != nil {
		r.deleted = append(r.deleted, string(entry.Kind)+" "+entry.String())
		return nil
	}
	return w.Write(entry)
}

func (r *backupReport) addRecord(w *backup.Writer, secret *corev1.Secret) error {
	err := w.Write(backup.NewRecord(secret))
	description := describe(secret)
	switch {
	case errors.Is(err, record.ErrUnreadable):
		r.unreadable = append(r.unreadable, description)
	case errors.Is(err, backup.ErrOrphan):
		r.orphans = append(r.orphans, description)
	case err != nil:
		return err
	default:
		return r.checkRestorable(r.createdAt, secret)
	}
	return nil
}

// describe returns the name of a record and its owner.
func describe(secret *corev1.Secret) string {
	return fmt.Sprintf("%s (of %s)", secret.Name, secret.Annotations[v1alpha1.OwnerAnnotation])
}

// checkRestorable checks that a restore accepts a record with all its secrets.
func (r *backupReport) checkRestorable(backupTime time.Time, secret *corev1.Secret) error {
	if record.KindOf(secret) != record.KindClient {
		return nil
	}
	body, err := record.ReadClient(secret)
	if err != nil {
		return err
	}
	if _, omitted := record.RestorableSecrets(body, backupTime); len(omitted) > 0 {
		r.tooMany = append(r.tooMany, fmt.Sprintf("%s/%s (%s)", body.Namespace, body.Name, number(len(omitted), "secret")))
	}
	return nil
}

// eachObject calls visit for every Realm or ApiClient. The objects keep fields that this version of the
// plugin doesn't know.
func (c *cluster) eachObject(ctx context.Context, kind string, visit func(*unstructured.Unstructured) error) error {
	next := ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := c.List(ctx, list, client.Limit(pageSize), client.Continue(next)); err != nil {
			return describeError(err, "listing "+kind+"s")
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// eachRecord calls visit for every record of a kind.
func (c *cluster) eachRecord(ctx context.Context, namespace string, kind record.Kind, visit func(*corev1.Secret) error) error {
	next := ""
	for {
		list := &corev1.SecretList{}
		labels := client.MatchingLabels{v1alpha1.RecordLabel: string(kind)}
		if err := c.List(ctx, list, client.InNamespace(namespace), labels, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing the records in namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}
