package backup

import (
	"bytes"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// NewRecord returns the entry of a record of a Realm or an ApiClient. The JSON of the record is kept
// unchanged: if private keys are sealed by a KMS, they are also sealed in the backup.
func NewRecord(secret *corev1.Secret) Entry {
	entry := Entry{Kind: KindRealmRecord, Name: secret.Name, UID: secret.UID, Record: bytes.TrimSpace(secret.Data[record.DataKey])}
	if record.KindOf(secret) == record.KindClient {
		entry.Kind = KindClientRecord
	}
	return entry
}

// RealmRecord returns the record of an entry of the kind RealmRecord.
//
// Errors: record.ErrUnreadable.
func (e *Entry) RealmRecord() (record.Realm, error) { return record.ReadRealm(e.secret()) }

// ClientRecord returns the record of an entry of the kind ClientRecord.
//
// Errors: record.ErrUnreadable.
func (e *Entry) ClientRecord() (record.Client, error) { return record.ReadClient(e.secret()) }

func (e *Entry) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: e.Name}, Data: map[string][]byte{record.DataKey: e.Record}}
}

// Owner returns the UID of the Realm of an entry of the kind RealmRecord.
func (e *Entry) Owner() types.UID { return record.RealmUID(e.secret()) }

// AcceptedSecrets returns the secrets that an ApiClient with the given record accepted at the time of
// the backup, up to record.MaxRestoredSecrets. If there are more, it omits the oldest of those that came
// from an earlier backup.
func AcceptedSecrets(c record.Client, backupTime time.Time) (accepted, omitted []record.ClientSecret) {
	accepted = slices.Clone(c.Secrets)
	if c.Restored != nil {
		earlier := slices.Clone(c.Restored.Secrets)
		slices.SortStableFunc(earlier, func(a, b record.ClientSecret) int { return b.CreatedAt.Compare(a.CreatedAt) })
		accepted = append(accepted, earlier...)
	}
	accepted = slices.DeleteFunc(accepted, func(s record.ClientSecret) bool { return !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(backupTime) })
	for i := range accepted {
		accepted[i].Role = record.RoleRestored
	}
	most := min(len(accepted), record.MaxRestoredSecrets)
	return accepted[:most:most], accepted[most:]
}
