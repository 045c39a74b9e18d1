package restore_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
	"github.com/realmkeeper/realmkeeper/internal/tools/restore"
)

var (
	backupTime = time.Unix(1_800_000_000, 0).UTC()
	now        = backupTime.Add(24 * time.Hour)
)

func key(t *testing.T, state signingkey.State, change ...func(*signingkey.Key)) signingkey.Key {
	t.Helper()
	k := testkit.Value(signingkey.Generate(signingkey.ES256, backupTime.Add(-time.Hour), rand.Reader))(t)
	k.State, k.PublishedAt, k.LongestLifetime = state, backupTime.Add(-time.Hour), 5*time.Minute
	for _, f := range change {
		f(&k)
	}
	return k
}

func states(keys []signingkey.Key) map[string]signingkey.State {
	got := map[string]signingkey.State{}
	for _, k := range keys {
		got[k.ID] = k.State
	}
	return got
}

// A realm without keys signs with the key that signed in the backup. A key that may have signed since
// then verifies.
func TestPutRealm(t *testing.T) {
	retired := key(t, signingkey.Retiring, func(k *signingkey.Key) { k.RetiredAt = backupTime })
	active, pending := key(t, signingkey.Active), key(t, signingkey.Pending)
	backed := record.Realm{
		Name: "acme", TokenLifetimeSeconds: 3600, TokensValidAfter: backupTime.Add(-time.Hour), Keys: []signingkey.Key{retired, active, pending},
		Exchanges: []record.Exchange{{Name: "orders"}},
	}
	got := restore.PutRealm(backed, backupTime, now)
	want := map[string]signingkey.State{retired.ID: signingkey.Retiring, active.ID: signingkey.Active, pending.ID: signingkey.Retiring}
	testkit.Diff(t, "keys", want, states(got.Keys))
	for _, k := range got.Keys {
		if want := map[bool]time.Duration{true: 5 * time.Minute, false: time.Hour}[k.ID == retired.ID]; k.LongestLifetime != want {
			t.Errorf("the longest lifetime of the %s key is %s, want %s", k.State, k.LongestLifetime, want)
		}
	}
	testkit.Diff(t, "exchanges", backed.Exchanges, got.Exchanges)
	if !got.Disabled || got.Basis != (record.Basis{}) || !got.TokensValidAfter.Equal(backed.TokensValidAfter) || got.Restored == nil || !got.Restored.BackupTime.Equal(backupTime) {
		t.Errorf("the record is %+v", got)
	}
}

// The signing key of the backup becomes the successor of the realm's own key, and all keys that may have
// signed verify until their tokens have expired.
func TestAddRealm(t *testing.T) {
	retired := key(t, signingkey.Retiring, func(k *signingkey.Key) { k.RetiredAt = now.Add(-time.Minute) })
	expired := key(t, signingkey.Retiring, func(k *signingkey.Key) { k.RetiredAt = now.Add(-time.Hour) })
	active, pending := key(t, signingkey.Active), key(t, signingkey.Pending)
	backed := record.Realm{Name: "acme", Basis: record.Basis{Generation: 7}, TokenLifetimeSeconds: 600, Keys: []signingkey.Key{retired, expired, active, pending}}
	own, ownNext := key(t, signingkey.Active), key(t, signingkey.Pending)
	current := record.Realm{Name: "acme", Keys: []signingkey.Key{own, ownNext}}

	got := testkit.Value(restore.AddRealm(current, backed, signingkey.ES256, backupTime, now))(t)
	want := map[string]signingkey.State{
		retired.ID: signingkey.Retiring, active.ID: signingkey.Pending, pending.ID: signingkey.Retiring, own.ID: signingkey.Active,
	}
	testkit.Diff(t, "keys", want, states(got.Keys))
	again, err := restore.AddRealm(got, backed, signingkey.ES256, backupTime, now)
	if diff := cmp.Diff(want, states(again.Keys)); err != nil || diff != "" {
		t.Errorf("keys after another restore: %v (-want +got):\n%s", err, diff)
	}
	// In the end, the key of the backup signs.
	policy := signingkey.Policy{Algorithm: signingkey.ES256, RotationInterval: 720 * time.Hour, PublishAhead: time.Hour, TokenLifetime: time.Minute}
	planned, _, err := signingkey.Plan(now.Add(2*time.Hour), signingkey.Acknowledge(now, got.Keys), policy, func(algorithm signingkey.Algorithm, now time.Time) (signingkey.Key, error) {
		return signingkey.Generate(algorithm, now, rand.Reader)
	})
	if err != nil || signingkey.ActiveID(planned) != active.ID {
		t.Errorf("key %s signs, want %s: %v", signingkey.ActiveID(planned), active.ID, err)
	}

	// A realm with another algorithm keeps its own keys, and only verifies with those of the backup.
	got, err = restore.AddRealm(current, backed, signingkey.RS256, backupTime, now)
	want[active.ID], want[ownNext.ID] = signingkey.Retiring, signingkey.Pending
	if diff := cmp.Diff(want, states(got.Keys)); err != nil || diff != "" {
		t.Errorf("keys with another algorithm: %v (-want +got):\n%s", err, diff)
	}
	for range signingkey.MaxKeys {
		current.Keys = append(current.Keys, key(t, signingkey.Retiring))
	}
	if _, err := restore.AddRealm(current, backed, signingkey.ES256, backupTime, now); !errors.Is(err, restore.ErrTooManyKeys) {
		t.Errorf("too many keys: %v", err)
	}
}

func secretsOf(ids ...string) (secrets []record.ClientSecret) {
	for _, id := range ids {
		secrets = append(secrets, record.ClientSecret{ID: id, Hash: "hash of " + id})
	}
	return secrets
}

// restoredSecrets returns the secrets after a restore.
func restoredSecrets(ids ...string) []record.ClientSecret {
	secrets := secretsOf(ids...)
	for i := range secrets {
		secrets[i].Role = record.RoleRestored
	}
	return secrets
}

func TestPutClient(t *testing.T) {
	backed := record.Client{
		UID: "c1", RealmUID: "r1", Identity: "older", Secrets: secretsOf("a"), TokensValidAfter: backupTime.Add(-time.Hour),
		Identities: []record.Identity{{ID: "github"}}, DelegatedScopes: []string{"orders.read"}, NamespaceSelectors: []string{"0123"},
		Restored: &record.Restored{BackupTime: backupTime.Add(-48 * time.Hour), Secrets: secretsOf("b")},
	}
	got := restore.PutClient(backed, "c2", "r2", backupTime, now)
	if got.UID != "c2" || got.RealmUID != "r2" || got.Identity != "older" || !got.Disabled || len(got.Secrets)+len(got.Identities)+len(got.NamespaceSelectors) != 0 || len(got.DelegatedScopes) != 1 {
		t.Errorf("the record is %+v", got)
	}
	want := &record.Restored{BackupTime: backupTime, At: now, TokensValidAfter: backupTime.Add(-time.Hour), Secrets: restoredSecrets("a", "b")}
	testkit.Diff(t, "restored", want, got.Restored)
}

func TestAddClient(t *testing.T) {
	revoked := backupTime.Add(-time.Hour)
	backed := record.Client{UID: "c1", Identity: "c1", Secrets: secretsOf("a", "own"), TokensValidAfter: revoked}
	current := record.Client{UID: "c2", Identity: "c2", Secrets: secretsOf("own")}
	got := restore.AddClient(current, backed, backupTime, now)
	want := record.Client{
		UID: "c2", Identity: "c1", Secrets: secretsOf("own"), TokensValidAfter: revoked,
		Restored: &record.Restored{BackupTime: backupTime, At: now, TokensValidAfter: revoked, Secrets: restoredSecrets("a")},
	}
	testkit.Diff(t, "record", want, got)
	// An older backup changes neither the identity nor the revocation.
	older := record.Client{UID: "c0", Identity: "c0", Secrets: secretsOf("z"), TokensValidAfter: revoked.Add(-time.Hour)}
	again := restore.AddClient(got, older, backupTime.Add(-time.Hour), now)
	if again.Identity != "c1" || !again.TokensValidAfter.Equal(revoked) || !again.Restored.TokensValidAfter.Equal(revoked) {
		t.Errorf("the record after an older backup is %+v", again)
	}
}

// recordOf returns a record of the client acme-apps/billing or, if its UID is empty, of the realm acme.
func recordOf(t *testing.T, uid types.UID, owner string, client types.UID, restoredFrom time.Time) *corev1.Secret {
	t.Helper()
	var restored *record.Restored
	if !restoredFrom.IsZero() {
		restored = &record.Restored{BackupTime: restoredFrom, At: restoredFrom}
	}
	var desired any
	var err error
	if client == "" {
		desired, err = recordsecret.ForRealm("records", &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "r2"}}, record.Realm{
			Name: "acme", Issuer: "https://api.example.com/acme", TokenLifetimeSeconds: 300, Keys: []signingkey.Key{key(t, signingkey.Active)}, Restored: restored,
		})
	} else {
		desired, err = recordsecret.ForClient("records", record.Client{
			UID: client, Namespace: "acme-apps", Name: "billing", RealmUID: "r2", RealmName: "acme", ClientID: "billing", Identity: client,
			Audiences: []string{"x"}, Secrets: []record.ClientSecret{}, Restored: restored,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	secret := secretOf(t, desired)
	secret.UID = uid
	if owner != "" {
		secret.Annotations[v1beta1.OwnerAnnotation] = owner
	}
	return secret
}

// secretOf converts an apply configuration to a Secret.
func secretOf(t *testing.T, desired any) *corev1.Secret {
	t.Helper()
	encoded := testkit.Value(json.Marshal(desired))(t)
	secret := &corev1.Secret{}
	testkit.Do(t, json.Unmarshal(encoded, secret))
	return secret
}

func unreadable(secret *corev1.Secret) *corev1.Secret {
	secret.Data = nil
	return secret
}

func newRestore() *restore.Restore {
	return &restore.Restore{Contents: &backup.Contents{Header: backup.Header{CreatedAt: backupTime}}}
}

func TestRealmStep(t *testing.T) {
	entry := &backup.Entry{Kind: backup.KindRealmRecord, UID: "record-r1"}
	var never time.Time
	for name, test := range map[string]struct {
		current *corev1.Secret
		replace bool
		want    any
	}{
		"no record":                      {nil, false, restore.Put},
		"damaged":                        {unreadable(recordOf(t, "record-r1", "", "", never)), false, restore.Put},
		"never lost":                     {recordOf(t, "record-r1", "", "", never), false, restore.Keep},
		"never lost, replace":            {recordOf(t, "record-r1", "", "", never), true, restore.Keep},
		"keys of its own":                {recordOf(t, "record-r2", "", "", never), false, restore.Add},
		"restored from this backup":      {recordOf(t, "record-r2", "", "", backupTime), false, restore.Keep},
		"restored from a newer backup":   {recordOf(t, "record-r2", "", "", now), false, restore.Keep},
		"restored from a newer, replace": {recordOf(t, "record-r2", "", "", now), true, restore.Add},
		"restored from an older backup":  {recordOf(t, "record-r2", "", "", backupTime.Add(-time.Hour)), false, restore.Add},
	} {
		r := newRestore()
		r.Replace = test.replace
		testkit.Diff(t, name, test.want, any(r.RealmStep(entry, test.current)))
	}
}

func TestClientStep(t *testing.T) {
	entry := &backup.Entry{Kind: backup.KindClientRecord, UID: "record-c1"}
	backed := record.Client{UID: "c1", Namespace: "acme-apps", Name: "billing", RealmName: "acme", ClientID: "billing"}
	var never time.Time
	for name, test := range map[string]struct {
		uid      types.UID // of the ApiClient; empty if there is none
		clientID string    // defaults to billing
		current  *corev1.Secret
		replace  bool
		want     any
		wantErr  error
	}{
		"nothing exists":                {want: restore.Put},
		"no record":                     {uid: "c2", want: restore.Put},
		"damaged":                       {uid: "c1", current: unreadable(recordOf(t, "record-c1", "", "c1", never)), want: restore.Put},
		"created by GitOps":             {uid: "c2", current: recordOf(t, "record-c2", "", "c2", never), want: restore.Add},
		"never lost":                    {uid: "c1", current: recordOf(t, "record-c1", "", "c1", never), want: restore.Keep},
		"never lost, replace":           {uid: "c1", current: recordOf(t, "record-c1", "", "c1", never), replace: true, want: restore.Keep},
		"record of a deleted client":    {current: recordOf(t, "record-c1", "", "c1", never), want: restore.Put},
		"record of the previous client": {uid: "c3", current: recordOf(t, "record-c2", "", "c2", now), want: restore.Put},
		"restored before":               {uid: "c2", current: recordOf(t, "record-c2", "", "c2", backupTime), want: restore.Keep},
		"restored before, replace":      {uid: "c2", current: recordOf(t, "record-c2", "", "c2", backupTime), replace: true, want: restore.Add},
		"restored from an older backup": {uid: "c2", current: recordOf(t, "record-c2", "", "c2", backupTime.Add(-1)), want: restore.Add},
		"other client ID":               {uid: "c2", clientID: "other", wantErr: restore.ErrOtherClient},
		"held by another":               {uid: "c2", current: recordOf(t, "x", "other/billing", "c9", never), wantErr: restore.ErrClientIDHeld},
		"held by another, damaged":      {uid: "c2", current: unreadable(recordOf(t, "x", "other/billing", "c9", never)), wantErr: restore.ErrClientIDHeld},
	} {
		r := newRestore()
		r.Replace = test.replace
		if test.clientID == "" {
			test.clientID = "billing"
		}
		got, err := r.ClientStep(entry, backed, test.uid, test.clientID, test.current)
		if !errors.Is(err, test.wantErr) || err == nil && any(got) != test.want {
			t.Errorf("%s: step %v, %v; want %v, %v", name, got, err, test.want, test.wantErr)
		}
	}
}

func TestCheckServiceURLs(t *testing.T) {
	const this, old = "https://api.example.com", "https://api.old.example"
	for name, test := range map[string]struct {
		url, backedUp, realm string
		wantErr              error
	}{
		"same cluster URL":            {url: this, backedUp: this},
		"another URL":                 {url: "https://api.third.example", backedUp: this, wantErr: restore.ErrOtherService},
		"one realm has another URL":   {url: old, backedUp: this, wantErr: restore.ErrOtherService},
		"only the realm with the URL": {url: old, backedUp: this, realm: "legacy"},
		"only the other realm":        {url: old, backedUp: this, realm: "acme", wantErr: restore.ErrOtherService},
		"unknown":                     {backedUp: this, wantErr: restore.ErrUnknownService},
	} {
		r := &restore.Restore{ServiceURL: test.url, Realm: test.realm, Contents: &backup.Contents{
			Header: backup.Header{ServiceURL: test.backedUp}, ServiceURLs: map[string]string{"acme": this, "legacy": old},
		}}
		testkit.Diff(t, name, test.wantErr, r.CheckServiceURLs(), cmpopts.EquateErrors())
	}
}

// A restore ends the lists of the backup and those that the realm has. The operator begins another one, and
// clients of the backup have no index.
func TestRestoreEndsStatusLists(t *testing.T) {
	active := key(t, signingkey.Active)
	backed := record.Realm{Name: "acme", TokenLifetimeSeconds: 3600, Keys: []signingkey.Key{active}, StatusLists: &record.StatusLists{
		Number: 10, TTLSeconds: 10, ValidAfter: backupTime, Ended: []record.EndedList{{Number: 9, EndsAt: now.Add(time.Minute)}},
	}}
	put := restore.PutRealm(backed, backupTime, now)
	testkit.Diff(t, "lists without a record", &record.StatusLists{
		TTLSeconds: 10, Ended: []record.EndedList{{Number: 10}, {Number: 9, EndsAt: now.Add(time.Minute)}},
	}, put.StatusLists)

	current := record.Realm{Name: "acme", TokenLifetimeSeconds: 60, Keys: []signingkey.Key{key(t, signingkey.Active)}, StatusLists: &record.StatusLists{
		Number: 12, TTLSeconds: 20, Ending: true, EndsAt: now.Add(time.Minute),
	}}
	added := testkit.Value(restore.AddRealm(current, backed, signingkey.ES256, backupTime, now))(t)
	testkit.Diff(t, "lists with a record", &record.StatusLists{TTLSeconds: 20, Ended: []record.EndedList{
		{Number: 12}, {Number: 10}, {Number: 9, EndsAt: now.Add(time.Minute)},
	}}, added.StatusLists)
	added.StatusLists.TTLSeconds = 1
	testkit.Diff(t, "the earlier lists", int64(20), current.StatusLists.TTLSeconds)

	backed.StatusLists, current.StatusLists = nil, nil
	if got := restore.PutRealm(backed, backupTime, now).StatusLists; got != nil {
		t.Errorf("a realm without lists has %+v", got)
	}
	if got := testkit.Value(restore.AddRealm(current, backed, signingkey.ES256, backupTime, now))(t).StatusLists; got != nil {
		t.Errorf("a realm without lists has %+v", got)
	}

	client := record.Client{UID: "1", Namespace: "apps", Name: "billing", StatusIndex: &record.StatusIndex{Index: 7}, IndexSerial: 3}
	if got := restore.PutClient(client, "2", "3", backupTime, now); got.StatusIndex != nil || got.IndexSerial != 0 {
		t.Errorf("a restored client has index %+v with serial %d", got.StatusIndex, got.IndexSerial)
	}
	own := record.Client{UID: "2", Namespace: "apps", Name: "billing", StatusIndex: &record.StatusIndex{Index: 8}, IndexSerial: 5}
	if got := restore.AddClient(own, client, backupTime, now); got.StatusIndex == nil || got.StatusIndex.Index != 8 || got.IndexSerial != 5 {
		t.Errorf("a client with an index has index %+v with serial %d after a restore", got.StatusIndex, got.IndexSerial)
	}
}
