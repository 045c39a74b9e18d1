package realm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
)

// gather reads the Realm and its record, from caches or, if live is set, from the API server. It also deletes
// the records of deleted Realms with the same name. The returned Realm is nil if it does not exist or is being
// deleted.
func (r *Reconciler) gather(ctx context.Context, req ctrl.Request, live bool) (observed, error) {
	realm, from, get := &v1beta1.Realm{}, client.Reader(r.Client), r.Records.Get
	if live {
		from, get = r.Live, r.Records.Live
	}
	if err := from.Get(ctx, req.NamespacedName, realm); client.IgnoreNotFound(err) != nil {
		return observed{}, fmt.Errorf("reading Realm %q: %w", req.Name, err)
	}
	deleted := realm.UID == "" || !realm.DeletionTimestamp.IsZero()
	uid := realm.UID
	if deleted {
		uid = types.UID("")
		r.Tracker.Forget(acknowledgement.Realm, req)
		r.Metrics.ForgetRealm(req.Name)
		r.Events.Forget(req.NamespacedName)
		r.Issuers.Forget(req.Name)
	}
	if err := r.deleteOrphans(ctx, req.NamespacedName, uid); err != nil || deleted {
		return observed{}, err
	}
	secret, err := get(ctx, record.RealmSecretName(uid))
	if err != nil {
		return observed{}, err
	}
	if secret == nil {
		// The status says whether the realm had keys, and a lagging cache must not cause new ones.
		current := &v1beta1.Realm{}
		found, err := recordstore.CurrentUID(ctx, r.Live, req.NamespacedName, current)
		if err != nil || found != uid {
			return observed{}, err // an event follows when the cache catches up
		}
		realm = current
	}
	seen := observed{
		realm: realm, record: secret, fetched: fetched(realm, r.Issuers), mode: r.Sealing.Mode,
	}
	clients, err := r.Clients(ctx, realm.Name)
	if err != nil {
		return observed{}, err
	}
	signal, err := r.Records.Cached(beacon.Name)
	if err != nil {
		return observed{}, err
	}
	seen.rolledBackAt = beacon.Read(signal).RolledBackAt
	if at := r.RolledBackAt(); at.After(seen.rolledBackAt) {
		seen.rolledBackAt = at // The beacon does not say it yet.
	}
	seen.clients, seen.unknownClients = int32(len(clients)), unknownClients(realm, clients)
	if secret != nil {
		seen.state = r.Tracker.Follow(acknowledgement.Realm, req, served(secret))
		seen.undecrypted, seen.unsigned = r.Tracker.Undecrypted(req.Name)
	}
	return seen, nil
}

// fetched returns the results of fetching the keys of the Realm's trusted issuers, by name.
func fetched(realm *v1beta1.Realm, from *trustedissuers.Fetcher) map[string]trustedissuers.State {
	fetched := map[string]trustedissuers.State{}
	for i := range realm.Spec.TrustedIssuers {
		issuer := &realm.Spec.TrustedIssuers[i]
		fetched[issuer.Name] = from.State(realm.Name, issuer.Name, sourceOf(issuer))
	}
	return fetched
}

// busyDelay is the shortest time after which a realm that found the Sealer busy tries again. The time is
// random, because several realms wait for the same place.
const busyDelay = time.Second / 2

// generate gets the new key that the realm needs from the Sealer, and decides again with it. If there is
// none yet, it returns the decision without the key.
func (r *Reconciler) generate(ctx context.Context, seen observed, d decision, now time.Time) (decision, error) {
	key, err := r.Sealing.Generate(ctx, seen.realm.UID, d.generate)
	switch {
	case errors.Is(err, sealing.ErrBusy):
		d.retryAfter = wait.Jitter(busyDelay, 1)
		return d, nil
	case err != nil:
		r.Metrics.Rotation(metrics.SigningKey, err)
		d.encryption.failed, d.retryAfter = true, sealing.Pause
		return d, nil
	}
	seen.generated = &key
	return r.decide(ctx, &seen, now)
}
