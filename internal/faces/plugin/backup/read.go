package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// backUp writes a backup of the cluster. It reads all objects in pages. Objects come before records,
// so that the backup never has the record of an object that it lacks.
func backUp(ctx context.Context, c *cluster.Cluster, out io.Writer, header backup.Header, recipients []age.Recipient) (*backupReport, error) {
	w, err := backup.NewWriter(out, header, recipients...)
	if err != nil {
		return nil, err
	}
	r := &backupReport{createdAt: header.CreatedAt}
	for _, kind := range []backup.Kind{backup.KindRealm, backup.KindClient} {
		err := backup.EachObject(ctx, c, kind, func(object *unstructured.Unstructured) error { return r.addObject(w, object) })
		if err != nil {
			return nil, cluster.DescribeError(err, "reading the cluster")
		}
	}
	for _, kind := range []record.Kind{record.KindRealm, record.KindClient} {
		err := backup.EachRecord(ctx, c, header.RecordsNamespace, kind, func(secret *corev1.Secret) error { return r.addRecord(w, secret) })
		if err != nil {
			return nil, err
		}
	}
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
	description := nameAndOwner(secret)
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

// nameAndOwner returns the name of a record and its owner.
func nameAndOwner(secret *corev1.Secret) string {
	return fmt.Sprintf("%s (of %s)", secret.Name, secret.Annotations[v1beta1.OwnerAnnotation])
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
	if _, omitted := backup.AcceptedSecrets(body, backupTime); len(omitted) > 0 {
		r.tooMany = append(r.tooMany, fmt.Sprintf("%s/%s (%s)", body.Namespace, body.Name, output.Number(len(omitted), "secret")))
	}
	return nil
}
