package backup_test

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

func newIdentity(t testing.TB) *age.X25519Identity {
	t.Helper()
	return testkit.Value(age.GenerateX25519Identity())(t)
}

//go:embed testdata/version1.jsonl
var golden string

// version1 returns the plaintext of a backup of version 1. The signing key and the verifier are
// generated, because no key is committed.
func version1(t testing.TB) string {
	t.Helper()
	key := testkit.Value(signingkey.Generate(signingkey.ES256, time.Unix(1_800_000_000, 0), rand.Reader))(t)
	key.State = signingkey.Active
	encoded := testkit.Value(json.Marshal(key))(t)
	verifier := testkit.Value(clientsecret.Hash("secret", rand.Reader))(t)
	return strings.NewReplacer("SIGNING-KEY", string(encoded), "VERIFIER", verifier.String()).Replace(golden)
}

func encrypt(t testing.TB, plaintext string, identity *age.X25519Identity) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := age.Encrypt(&b, identity.Recipient())
	if err == nil {
		_, err = io.WriteString(w, plaintext)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func check(file []byte, identity age.Identity) (*backup.Contents, error) {
	r, err := backup.NewReader(bytes.NewReader(file), identity)
	if err != nil {
		return nil, err
	}
	return backup.Check(r)
}

// A file of version 1 stays readable, and a copy of it is the same.
func TestVersion1(t *testing.T) {
	identity, plaintext := newIdentity(t), version1(t)
	contents := testkit.Value(check(encrypt(t, plaintext, identity), identity))(t)
	want := &backup.Contents{
		Header: backup.Header{
			Format: "realmkeeper-backup", Version: 1, CreatedAt: time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC),
			ServiceURL: "https://api.example.com", RecordsNamespace: "realmkeeper-records", PluginVersion: "0.1.0",
		},
		Counts:        backup.Counts{Realms: 1, Clients: 2, RealmRecords: 1, ClientRecords: 1},
		ServiceURLs:   map[string]string{"acme": "https://api.example.com"},
		WithoutRecord: []string{"ApiClient acme-apps/new"},
		WithoutRealm:  []string{"acme-apps/new"},
	}
	testkit.Diff(t, "Contents", want, contents)
	r := testkit.Value(backup.NewReader(bytes.NewReader(encrypt(t, plaintext, identity)), identity))(t)
	var copied bytes.Buffer
	w := testkit.Value(backup.NewWriter(&copied, r.Header, identity.Recipient()))(t)
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Write(entry)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	testkit.Value(w.Close())(t)
	decrypted := testkit.Value(age.Decrypt(&copied, identity))(t)
	if again, err := io.ReadAll(decrypted); err != nil || cmp.Diff(plaintext, string(again)) != "" {
		t.Errorf("Copy of the backup: %v (-want +got):\n%s", err, cmp.Diff(plaintext, string(again)))
	}
}

// Every damage has one of the documented errors, wherever it is.
func TestDamage(t *testing.T) {
	identity := newIdentity(t)
	// More than one chunk of the encryption.
	lines := strings.SplitAfter(version1(t), "\n")
	lines[1] = strings.Replace(lines[1], `"orders.read"`, `"`+strings.Repeat("x", 150_000)+`"`, 1)
	file := encrypt(t, strings.Join(lines, ""), identity)
	testkit.Value(check(file, identity))(t)
	for length := 0; length < len(file); length += 1 + length/60 {
		if _, err := check(file[:length], identity); !errors.Is(err, backup.ErrDamaged) && (!errors.Is(err, backup.ErrNotBackup) || length > 40) {
			t.Errorf("Cut at %d of %d bytes: %v", length, len(file), err)
		}
	}
	for at := 0; at < len(file); at += 1 + at/60 {
		altered := bytes.Clone(file)
		altered[at] ^= 0x20
		_, err := check(altered, identity)
		if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrNotBackup) && !errors.Is(err, backup.ErrIdentity) || at > 300 && !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("Byte %d of %d altered: %v", at, len(file), err)
		}
	}
	if _, err := check(append(bytes.Clone(file), file...), identity); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("Two files in one: %v", err)
	}
}

func TestRejects(t *testing.T) {
	identity, plaintext := newIdentity(t), version1(t)
	lines := strings.SplitAfter(plaintext, "\n")
	without := func(i int) string { return strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "") }
	for name, test := range map[string]struct {
		plaintext string
		want      error
	}{
		"empty":                   {"", backup.ErrDamaged},
		"other JSON":              {"{}\n", backup.ErrNotBackup},
		"other version":           {strings.Replace(plaintext, `"version":1`, `"version":2`, 1), backup.ErrVersion},
		"without a record":        {without(5), backup.ErrDamaged},
		"without the trailer":     {without(6), backup.ErrDamaged},
		"an entry twice":          {strings.Join([]string{lines[0], lines[1], plaintext[len(lines[0]):]}, ""), backup.ErrDamaged},
		"after the trailer":       {plaintext + "{}\n", backup.ErrDamaged},
		"not JSON":                {lines[0] + "x\n", backup.ErrDamaged},
		"unknown kind":            {strings.Replace(plaintext, `"kind":"Realm"`, `"kind":"Secret"`, 1), backup.ErrDamaged},
		"object of another entry": {strings.Replace(plaintext, `"name":"billing","namespace":"acme-apps"`, `"name":"other","namespace":"acme-apps"`, 1), backup.ErrDamaged},
		"record without object":   {strings.Replace(plaintext, `"uid":"5c9e2c5e`, `"uid":"00000000`, 1), backup.ErrDamaged},
		"newer record":            {strings.Replace(plaintext, `"schemaVersion":1`, `"schemaVersion":99`, 1), record.ErrUnreadable},
		"long line":               {lines[0] + strings.Repeat(" ", 9<<20) + "\n", backup.ErrDamaged},
	} {
		if _, err := check(encrypt(t, test.plaintext, identity), identity); !errors.Is(err, test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
	}
	if _, err := check(encrypt(t, plaintext, identity), newIdentity(t)); !errors.Is(err, backup.ErrIdentity) {
		t.Errorf("Other identity: %v", err)
	}
	if _, err := check([]byte(plaintext), identity); !errors.Is(err, backup.ErrNotBackup) {
		t.Errorf("Not encrypted: %v", err)
	}
	failing := iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(encrypt(t, plaintext, identity))))
	if _, err := backup.NewReader(failing, identity); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("File that cannot be read: %v", err)
	}
}

// A backup has what a user sets, and nothing that belongs to the cluster or a controller.
func TestNewObject(t *testing.T) {
	entry := testkit.Value(backup.NewObject(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "auth.realmkeeper.dev/v1beta1", "kind": "ApiClient",
		"metadata": map[string]any{
			"namespace": "acme-apps", "name": "billing", "uid": "1", "resourceVersion": "2", "generation": int64(3), "creationTimestamp": "2026-01-02T03:04:05Z",
			"finalizers": []any{"example.com/x"}, "managedFields": []any{map[string]any{"manager": "kubectl"}},
			"ownerReferences": []any{map[string]any{"uid": "4"}},
			"labels":          map[string]any{"team": "payments"},
			"annotations":     map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "{}"},
		},
		"spec":   map[string]any{"unknown": "kept"},
		"status": map[string]any{"clientID": "x"},
	}}))(t)
	const want = `{"apiVersion":"auth.realmkeeper.dev/v1beta1","kind":"ApiClient","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"labels":{"team":"payments"},"name":"billing","namespace":"acme-apps"},"spec":{"unknown":"kept"}}`
	if got := strings.TrimSpace(string(entry.Object)); got != want || entry.UID != "1" {
		t.Errorf("Entry %+v, object (-want +got):\n%s", entry, cmp.Diff(want, got))
	}
}

// A record that can't be in a backup doesn't end it.
func TestWriterSkipsRecords(t *testing.T) {
	identity := newIdentity(t)
	r := testkit.Value(backup.NewReader(bytes.NewReader(encrypt(t, version1(t), identity)), identity))(t)
	var b bytes.Buffer
	w := testkit.Value(backup.NewWriter(&b, r.Header, identity.Recipient()))(t)
	damaged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "realm-1", UID: "1"}, Data: map[string][]byte{record.DataKey: []byte("{")}}
	testkit.Diff(t, "Damaged record", record.ErrUnreadable, w.Write(backup.NewRecord(damaged)), cmpopts.EquateErrors())
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry.Kind != backup.KindRealmRecord && entry.Kind != backup.KindClientRecord {
			continue
		}
		testkit.Diff(t, "Record without its object", backup.ErrOrphan, w.Write(entry), cmpopts.EquateErrors())
	}
	if contents, err := w.Close(); err != nil || contents.Counts != (backup.Counts{}) {
		t.Errorf("Contents %+v, %v; want none", contents, err)
	}
	testkit.Value(check(b.Bytes(), identity))(t)
}

func TestKeys(t *testing.T) {
	identity := newIdentity(t)
	hybrid := testkit.Value(age.GenerateHybridIdentity())(t)
	for name, test := range map[string]struct {
		file  string
		valid bool
	}{
		"identity":             {"# created: today\n" + identity.String() + "\n", true},
		"with a slip":          {strings.ToLower(identity.String()), false},
		"encrypted":            {"age-encryption.org/v1\n", false},
		"encrypted with armor": {"-----BEGIN AGE ENCRYPTED FILE-----\n", false},
	} {
		_, err := backup.ParseIdentities(strings.NewReader(test.file))
		if (err == nil) != test.valid || err != nil && (!errors.Is(err, backup.ErrIdentityFile) || strings.Contains(strings.ToUpper(err.Error()), identity.String()[20:])) {
			t.Errorf("%s: error %v, want valid %t and no key in it", name, err, test.valid)
		}
	}
	for file, valid := range map[string]bool{
		identity.Recipient().String() + "\n# comment\n\n": true,
		hybrid.Recipient().String():                       true,
		"":                                                false,
		"ssh-ed25519 AAAA":                                false,
	} {
		if _, err := backup.ParseRecipients(strings.NewReader(file)); (err == nil) != valid || err != nil && !errors.Is(err, backup.ErrRecipient) {
			t.Errorf("Recipients %q: error %v, want valid %t", file, err, valid)
		}
	}
}

// FuzzReader checks that no plaintext crashes the reader, and that what it accepts can be written and
// read again.
func FuzzReader(f *testing.F) {
	identity := newIdentity(f)
	f.Add(version1(f))
	f.Add("{}\n")
	f.Fuzz(func(t *testing.T, plaintext string) {
		r, err := backup.NewReader(bytes.NewReader(encrypt(t, plaintext, identity)), identity)
		if err != nil {
			return
		}
		var copied bytes.Buffer
		w := testkit.Value(backup.NewWriter(&copied, r.Header, identity.Recipient()))(t)
		for {
			entry, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || w.Write(entry) != nil {
				return
			}
		}
		testkit.Value(w.Close())(t)
		if _, err := check(copied.Bytes(), identity); err != nil {
			t.Errorf("Copy of a valid backup: %v", err)
		}
	})
}

// FuzzFile checks that no file crashes the reader.
func FuzzFile(f *testing.F) {
	identity := newIdentity(f)
	f.Add(encrypt(f, version1(f), identity))
	f.Fuzz(func(_ *testing.T, file []byte) { _, _ = check(file, identity) })
}

// A restore accepts the newest secrets. Those of an earlier backup come last, and expired ones not at all.
func TestAcceptedSecrets(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	secret := func(id string, age time.Duration) record.ClientSecret {
		return record.ClientSecret{ID: id, CreatedAt: at.Add(-age)}
	}
	expired := secret("expired", time.Hour)
	expired.ExpiresAt = at
	c := record.Client{Secrets: []record.ClientSecret{expired, secret("own", time.Minute)}, Restored: &record.Restored{}}
	for i := range record.MaxRestoredSecrets {
		c.Restored.Secrets = append([]record.ClientSecret{secret(fmt.Sprintf("restored-%d", i), time.Duration(i)*time.Hour)}, c.Restored.Secrets...)
	}
	accepted, omitted := backup.AcceptedSecrets(c, at)
	if len(accepted) != record.MaxRestoredSecrets || accepted[0].ID != "own" || accepted[1].ID != "restored-0" {
		t.Errorf("accepted: %+v", accepted)
	}
	if len(omitted) != 1 || omitted[0].ID != fmt.Sprintf("restored-%d", record.MaxRestoredSecrets-1) {
		t.Errorf("omitted: %+v", omitted)
	}
}
