package realm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// observed is the state that a decision is based on.
type observed struct {
	realm  *v1beta1.Realm
	record *corev1.Secret // nil if there is none according to the API server
	// state is the state of this record at the token servers.
	state acknowledgement.State
	// unconfirmed means that a token server may not serve this record, although state says so.
	unconfirmed bool
	// undecrypted are the names of the live token servers that have not decrypted the Pending key yet, and
	// unsigned of those that have not decrypted the Active key.
	undecrypted, unsigned []string
	// fetched contains the results of fetching the keys of trusted issuers, by name. Issuers whose
	// keys are in the spec have none.
	fetched map[string]trustedissuers.State
	// mode is the form of new keys. generated is a new key from the Sealer, or nil.
	mode      sealing.Mode
	generated *signingkey.Key
	// clients is the number of ApiClients that refer to the Realm, according to the cache. unknownClients are
	// the client IDs in its exchanges, by rule, that none of them has.
	clients        int32
	unknownClients map[string][]string
	// rolledBackAt is when an operator last found that the API server had been rolled back; zero if never.
	rolledBackAt time.Time
}

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

// served returns a record as token servers must serve it.
func served(secret *corev1.Secret) acknowledgement.Record {
	return acknowledgement.Record{Name: secret.Name, Version: secret.ResourceVersion}
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

// deleteOrphans deletes the records of other Realms than the one with a UID that have or had its name.
func (r *Reconciler) deleteOrphans(ctx context.Context, name types.NamespacedName, realm types.UID) error {
	own, err := r.Records.OfOwner(name)
	if err != nil {
		return err
	}
	return r.Records.DeleteOrphans(ctx, recordstore.OfKind(record.KindRealm, own), notOf(realm), func(ctx context.Context) (recordstore.Orphaned, error) {
		current, err := recordstore.CurrentUID(ctx, r.Live, name, &v1beta1.Realm{})
		return notOf(current), err
	})
}

// notOf reports whether a record belongs to another Realm than the one with the given UID.
func notOf(realm types.UID) recordstore.Orphaned {
	return func(secret *corev1.Secret) bool { return record.RealmUID(secret) != realm }
}
