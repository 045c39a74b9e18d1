package realm

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// read reads what belongs to the Realm from caches or, if live is set, from the API server. The record is read before
// the Realm then. Otherwise a Realm that was deleted in between could get new keys, and one that was changed would be
// older than its record.
func (r *Reconciler) read(ctx context.Context, req ctrl.Request, live bool) (observed, error) {
	realm, err := getRealm(ctx, r.Client, req)
	if err != nil || realm == nil {
		return observed{}, err
	}
	get := func(_ context.Context, name string) (*corev1.Secret, error) { return r.Records.Cached(name) }
	if live {
		get = r.Records.Live
	}
	seen := observed{namespace: r.Records.Namespace(), realm: realm, live: live, mode: r.Sealing.Mode}
	if seen.record, err = get(ctx, record.RealmRecordName(realm.UID)); err != nil {
		return observed{}, err
	}
	if live {
		seen.realm, err = getRealm(ctx, r.Live, req)
		if err != nil || seen.realm == nil || seen.realm.UID != realm.UID {
			return observed{}, err // An event follows when the cache catches up.
		}
	}
	signal, err := get(ctx, beacon.Name)
	if err != nil {
		return observed{}, err
	}
	// The beacon may not say yet what this process has found.
	seen.rolledBackAt = timestamp.Latest(beacon.Read(signal).RolledBackAt, r.RolledBackAt())
	seen.fetched = map[string]trustedissuers.State{}
	for i := range seen.realm.Spec.TrustedIssuers {
		issuer := &seen.realm.Spec.TrustedIssuers[i]
		seen.fetched[issuer.Name] = r.Issuers.State(req.Name, issuer.Name, sourceOf(issuer))
	}
	seen.clients, err = r.Clients(ctx, req.Name)
	return seen, err
}

// getRealm returns a Realm, or nil if it doesn't exist or is being deleted.
func getRealm(ctx context.Context, reader client.Reader, req ctrl.Request) (*v1beta1.Realm, error) {
	realm := &v1beta1.Realm{}
	if uid, err := recordstore.CurrentUID(ctx, reader, req.NamespacedName, realm); err != nil || uid == "" {
		return nil, err
	}
	return realm, nil
}

// follow reads the state of the record at the token servers. The Realm is reconciled again when it changes.
func (r *Reconciler) follow(req ctrl.Request, seen *observed) {
	if seen.record == nil {
		r.Tracker.Forget(acknowledgement.Realm, req)
		return
	}
	seen.state = r.Tracker.Follow(acknowledgement.Realm, req, served(seen.record))
	seen.undecrypted, seen.undecryptedActive = r.Tracker.Undecrypted(req.Name)
}

// fetch reads what a decision lacks. If that is everything from the API server, the next decision says what else it
// lacks.
func (r *Reconciler) fetch(ctx context.Context, req ctrl.Request, seen *observed, d decision) (err error) {
	if d.lacks&lacksLive != 0 {
		if seen.live {
			return errInconclusive
		}
		ctrl.LoggerFrom(ctx).V(1).Info("Reconciling with the API server instead of the cache")
		*seen, err = r.read(ctx, req, true)
		return err
	}
	if d.lacks&lacksConfirmation != 0 {
		if seen.confirmed, err = r.Tracker.Confirm(ctx, servedWithKeys(seen.record, seen.realm.Name, d.recorded)); err != nil {
			return fmt.Errorf("confirming the record of Realm %q: %w", req.Name, err)
		}
		seen.unconfirmed = !seen.confirmed
	}
	if d.lacks&lacksKey != 0 {
		r.generate(ctx, seen, d.generate)
	}
	return nil
}

// busyDelay is the shortest time after which a realm that found the Sealer busy tries again. The time is
// random, because several realms wait for the same place.
const busyDelay = time.Second / 2

// generate gets a new key from the Sealer.
func (r *Reconciler) generate(ctx context.Context, seen *observed, algorithm signingkey.Algorithm) {
	key, err := r.Sealing.Generate(ctx, seen.realm.UID, algorithm)
	switch {
	case err == nil:
		seen.generated = &key
	case errors.Is(err, sealing.ErrBusy):
		seen.retryAfter = wait.Jitter(busyDelay, 1)
	default:
		r.Metrics.Rotation(metrics.SigningKey, err)
		seen.failed, seen.retryAfter = true, sealing.Pause
	}
}

// servedWithKeys returns a record as token servers must serve it before its keys take a step that can't be undone.
// They must have decrypted a Pending key. One in plaintext doesn't wait for servers that say they need a plugin.
func servedWithKeys(secret *corev1.Secret, realm string, keys []signingkey.Key) acknowledgement.Record {
	r := served(secret)
	if isSealed(keys, signingkey.Pending) {
		r.PendingKeyOf = realm
	}
	return r
}
