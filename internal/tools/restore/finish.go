package restore

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// Finished is an ApiClient that no longer accepts the secrets of a backup.
type Finished struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Secrets are the IDs of the secrets of the backup.
	Secrets []string `json:"secrets"`
}

// Finish removes the secrets of backups from the records of ApiClients, so that they are no longer
// accepted. With dryRun, it only returns them. The operator may run meanwhile.
func (r *Restore) Finish(ctx context.Context, dryRun bool) ([]Finished, error) {
	finished := []Finished{}
	err := backup.EachRecord(ctx, r.Client, r.RecordsNamespace, record.KindClient, func(secret *corev1.Secret) error {
		body, err := record.ReadClient(secret)
		if err != nil || body.Restored == nil || len(body.Restored.Secrets) == 0 || r.Realm != "" && r.Realm != body.RealmName {
			return nil //nolint:nilerr // The operator reports an unreadable record, and nothing in it can be finished.
		}
		f := Finished{Namespace: body.Namespace, Name: body.Name}
		for _, s := range body.Restored.Secrets {
			f.Secrets = append(f.Secrets, s.ID)
		}
		if !dryRun {
			if err := r.finish(ctx, client.ObjectKeyFromObject(secret)); err != nil {
				return fmt.Errorf("finishing ApiClient %s/%s: %w", body.Namespace, body.Name, err)
			}
		}
		finished = append(finished, f)
		return nil
	})
	return finished, err
}

// finish removes the secrets of a backup from one record. The operator can change the record meanwhile.
func (r *Restore) finish(ctx context.Context, key client.ObjectKey) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		secret := &corev1.Secret{}
		if err := r.Client.Get(ctx, key, secret); err != nil {
			return client.IgnoreNotFound(err)
		}
		body, err := record.ReadClient(secret)
		if err != nil || body.Restored == nil {
			return err
		}
		body.Restored.Secrets = nil
		desired, err := recordsecret.ForClient(key.Namespace, body)
		if err != nil {
			return err
		}
		return writeRecord(ctx, r.Client, secret, desired)
	})
}

// Aborted is a restore whose leader Lease was released.
type Aborted struct {
	leader.Restore

	// Records is the number of records that it has written.
	Records int `json:"records"`
}

// Abort releases the leader Lease of a restore that has stopped without doing so. It returns nil if no
// restore holds the Lease. What that restore has written stays.
//
// Errors: leader.ErrRestoreRunning.
func (r *Restore) Abort(ctx context.Context) (*Aborted, error) {
	found, err := r.lease().Abort(ctx)
	if err != nil || found == nil {
		return nil, err
	}
	aborted := &Aborted{Restore: *found}
	for _, kind := range []record.Kind{record.KindRealm, record.KindClient} {
		err := backup.EachRecord(ctx, r.Client, r.RecordsNamespace, kind, func(secret *corev1.Secret) error {
			if restored := restoredOf(secret); restored != nil && !restored.At.Before(found.Since.Truncate(time.Second)) {
				aborted.Records++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return aborted, nil
}

func restoredOf(secret *corev1.Secret) *record.Restored {
	if record.KindOf(secret) == record.KindClient {
		body, _ := record.ReadClient(secret)
		return body.Restored
	}
	body, _ := record.ReadRealm(secret)
	return body.Restored
}
