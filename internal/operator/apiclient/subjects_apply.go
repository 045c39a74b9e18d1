package apiclient

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// holdSubjects writes the records of the client's subjects. The API server creates only one record for a
// subject, so another client that was faster keeps it.
func (r *Reconciler) holdSubjects(ctx context.Context, seen *observed, wanted []record.Subject) error {
	for _, body := range wanted {
		desired, err := record.ForSubject(r.Records.Namespace(), body)
		if err != nil {
			return err
		}
		key := subject{body.Issuer, body.Subject}
		secret, err := r.Records.Put(ctx, seen.subjects[key], desired)
		if err != nil {
			return err
		}
		if seen.subjects == nil {
			seen.subjects = map[subject]*corev1.Secret{}
		}
		seen.subjects[key] = secret
	}
	return nil
}

// giveUpSubjects deletes the records of subjects that the client does not keep according to the API
// server, either. With the cache alone, it could lose a subject that it lists again.
func (r *Reconciler) giveUpSubjects(ctx context.Context, req ctrl.Request, obsolete []corev1.Secret) error {
	if len(obsolete) == 0 {
		return nil
	}
	c, realm := &v1alpha1.ApiClient{}, &v1alpha1.Realm{}
	uid, err := recordstore.CurrentUID(ctx, r.Live, req.NamespacedName, c)
	if err != nil || uid == "" {
		return err // The records of deleted objects are orphans.
	}
	realmUID, err := recordstore.CurrentUID(ctx, r.Live, client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm)
	if err != nil || realmUID == "" {
		return err
	}
	for i := range obsolete {
		if keepsSubject(realm, c, &obsolete[i]) {
			continue
		}
		if err := r.Records.Delete(ctx, &obsolete[i]); err != nil {
			return fmt.Errorf("giving up a subject of ApiClient %s: %w", req, err)
		}
	}
	return nil
}
