package restore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// restoredAt returns what a restored record says about the restore. earlier is what it said before, or
// nil. Tokens that were revoked before stay revoked.
func restoredAt(backupTime, now, tokensValidAfter time.Time, earlier *record.Restored) *record.Restored {
	r := &record.Restored{BackupTime: backupTime.UTC(), At: now.UTC().Truncate(time.Second), TokensValidAfter: tokensValidAfter.UTC()}
	if earlier != nil {
		r.TokensValidAfter = timestamp.Latest(r.TokensValidAfter, earlier.TokensValidAfter)
	}
	return r
}

// putRealm returns the record of a Realm that has no other keys than those of the backup. It is disabled
// until the operator has compared it with the spec.
func putRealm(backed record.Realm, backupTime, now time.Time) record.Realm {
	body := backed
	body.Disabled, body.Basis = true, record.Basis{} // The basis belongs to the Realm of the backup.
	body.Keys = slices.Clone(backed.Keys)
	for i := range body.Keys {
		k := &body.Keys[i]
		if k.State != signingkey.Retiring {
			k.LongestLifetime = longestLifetime(backed)
		}
		if k.State == signingkey.Pending { // It may have signed tokens after the backup.
			k.Retire()
			k.RetiredAt = time.Time{}
		}
	}
	body.Restored = restoredAt(backupTime, now, backed.TokensValidAfter, backed.Restored)
	body.StatusLists = backed.StatusLists.End() // Which clients got which indexes after the backup is unknown.
	return body
}

// addRealm returns the record of a Realm that has keys of its own, with those of the backup.
//
// Errors: ErrTooManyKeys.
func addRealm(current, backed record.Realm, algorithm signingkey.Algorithm, backupTime, now time.Time) (record.Realm, error) {
	keys, err := addKeys(current.Keys, backed, algorithm, now)
	if err != nil {
		return record.Realm{}, err
	}
	body := current
	body.Keys, body.Basis = keys, record.Basis{}
	body.Restored = restoredAt(backupTime, now, backed.TokensValidAfter, current.Restored)
	body.TokensValidAfter = timestamp.Latest(body.TokensValidAfter, body.Restored.TokensValidAfter)
	body.StatusLists = current.StatusLists.End().WithEnded(backed.StatusLists.End())
	return body, nil
}

// addKeys adds the keys of a backup to those of a realm, sorted like the result of signingkey.Plan. Tokens
// that they signed verify from then on.
//
// The Active key of the backup becomes Pending instead of the realm's Pending key, and thus the successor
// of its Active key, unless the realm has another algorithm by now. The other keys become Retiring, as
// they may have signed tokens after the backup, and are removed like other Retiring keys.
//
// Errors: ErrTooManyKeys.
func addKeys(current []signingkey.Key, backed record.Realm, algorithm signingkey.Algorithm, now time.Time) ([]signingkey.Key, error) {
	keys := slices.Clone(current)
	for _, k := range backed.Keys {
		expired := k.State == signingkey.Retiring && !k.RetiredAt.IsZero() && now.Sub(k.RetiredAt) > k.LongestLifetime+signingkey.Skew
		if expired || find(current, k.ID) != nil {
			continue
		}
		if k.State != signingkey.Retiring {
			k.LongestLifetime = longestLifetime(backed)
		}
		if k.State == signingkey.Active && k.Algorithm == algorithm {
			k.State, k.CreatedAt, k.PublishedAt, k.ActiveAt = signingkey.Pending, now.UTC().Truncate(time.Second), time.Time{}, time.Time{}
			keys = slices.DeleteFunc(keys, func(own signingkey.Key) bool { return own.State == signingkey.Pending })
		} else if k.State != signingkey.Retiring {
			k.Retire()
			k.RetiredAt = time.Time{}
		}
		keys = append(keys, k)
	}
	if len(keys) > signingkey.MaxKeys {
		return nil, fmt.Errorf("%w: %d, and at most %d are allowed; wait until Retiring keys are removed, and restore again", ErrTooManyKeys, len(keys), signingkey.MaxKeys)
	}
	slices.SortFunc(keys, func(a, b signingkey.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return keys, nil
}

// longestLifetime returns the longest lifetime of a token that a key of the realm has signed, or may have
// signed after the backup.
func longestLifetime(backed record.Realm) time.Duration {
	return max(time.Duration(backed.TokenLifetimeSeconds)*time.Second, signingkey.LongestLifetime(backed.Keys))
}

// putClient returns the record of an ApiClient that has no other secrets than those of the backup. It is
// disabled until the operator has compared it with the spec. The operator also adds what depends on other
// objects of this cluster: service accounts, the subjects of tokens, and the labels of the namespace.
func putClient(backed record.Client, uid, realmUID types.UID, backupTime, now time.Time) record.Client {
	body := backed
	body.UID, body.RealmUID, body.Disabled = uid, realmUID, true
	body.Secrets, body.Identities, body.NamespaceSelectors = []record.ClientSecret{}, nil, nil
	// These belong to objects of the cluster of the backup.
	body.SecretSerial, body.StatusIndex, body.IndexSerial, body.Basis = 0, nil, 0, record.Basis{}
	body.Restored = restoredAt(backupTime, now, backed.TokensValidAfter, backed.Restored)
	body.Restored.Secrets, _ = backup.AcceptedSecrets(backed, backupTime)
	return body
}

// addClient returns the record of an ApiClient that has secrets of its own, with those of the backup, and
// with the identity that it had. A client that was restored before keeps its identity, because tokens with
// another one are not its own.
func addClient(current, backed record.Client, backupTime, now time.Time) record.Client {
	body := current
	body.Basis = record.Basis{}
	if current.Identity == current.UID {
		body.Identity = backed.Identity
	}
	body.Restored = restoredAt(backupTime, now, backed.TokensValidAfter, current.Restored)
	body.TokensValidAfter = timestamp.Latest(body.TokensValidAfter, body.Restored.TokensValidAfter)
	accepted, _ := backup.AcceptedSecrets(backed, backupTime)
	body.Restored.Secrets = slices.DeleteFunc(accepted, func(s record.ClientSecret) bool {
		return slices.ContainsFunc(current.Secrets, func(own record.ClientSecret) bool { return own.ID == s.ID || own.Hash == s.Hash })
	})
	return body
}
