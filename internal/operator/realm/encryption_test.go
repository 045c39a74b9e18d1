package realm

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// sealedKey returns a key that is encrypted for acme.
func sealedKey(t *testing.T, kmsKey string) signingkey.Key {
	t.Helper()
	key, err := signingkey.Generate(signingkey.ES256, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return sealFor(key, kmsKey)
}

func sealFor(key signingkey.Key, kmsKey string) signingkey.Key {
	return key.Seal(signingkey.Sealed{
		RealmUID: string(acme(func(*v1alpha1.Realm) {}).UID), KeyID: kmsKey, EncryptedDataKey: []byte("x"), Ciphertext: []byte("x"),
	})
}

// withView decides with what is known about the encryption of keys.
func withView(t *testing.T, realm *v1alpha1.Realm, before *corev1.Secret, at time.Time, view sealing.View) (decision, v1alpha1.RealmStatus) {
	t.Helper()
	seen := observed{realm: realm, record: before, sealing: view}
	if before != nil {
		seen.state = acknowledgement.Acknowledged
	}
	d, err := decide(seen, instance(), at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	state := acknowledgement.Acknowledged
	if d.record == nil && before == nil {
		return d, status(realm, d, nil, instance(), at)
	}
	return d, status(realm, d, &state, instance(), at)
}

func reasonOf(s v1alpha1.RealmStatus, kind v1alpha1.ConditionType) string {
	c := meta.FindStatusCondition(s.Conditions, string(kind))
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func TestFirstKeyWaitsForThePlugin(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	d, s := withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt})
	if d.record != nil || d.request.Generate != signingkey.ES256 {
		t.Errorf("record %v, request %v", d.record, d.request)
	}
	if got := reasonOf(s, v1alpha1.ConditionReady); got != "Unknown Progressing" {
		t.Errorf("Ready is %s", got)
	}
	_, s = withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt, Unavailable: true})
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionReady, v1alpha1.ConditionProgrammed, v1alpha1.ConditionKeysEncrypted} {
		if got := reasonOf(s, kind); got != "False KMSUnavailable" {
			t.Errorf("%s is %s", kind, got)
		}
	}

	key := sealedKey(t, "1")
	d, s = withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt, Generated: &key})
	if d.record == nil || len(d.record.Keys) != 1 || d.record.Keys[0].State != signingkey.Active || d.request.Urgent() {
		t.Fatalf("record %v, request %v", d.record, d.request)
	}
	if got := reasonOf(s, v1alpha1.ConditionKeysEncrypted); got != "True KeysEncrypted" {
		t.Errorf("KeysEncrypted is %s", got)
	}
	checkNoPrivateMember(t, written(t, realm, d))
}

// checkNoPrivateMember checks that no JWK in a record has a private member.
func checkNoPrivateMember(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	var stored struct {
		Body struct {
			Keys []struct {
				JWK map[string]any `json:"jwk"`
			} `json:"keys"`
		} `json:"body"`
	}
	if err := json.Unmarshal(secret.Data[record.DataKey], &stored); err != nil {
		t.Fatal(err)
	}
	for _, key := range stored.Body.Keys {
		if _, ok := key.JWK["d"]; ok {
			t.Errorf("key %v has a private member", key.JWK["kid"])
		}
	}
}

// While the plugin is unavailable, a rotation waits, and every other change is written.
func TestRotationWaitsForThePlugin(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	first := sealedKey(t, "1")
	d, _ := withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt, Generated: &first})
	before := written(t, realm, d)
	realm.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(time.Hour)}
	realm.Spec.Suspend = true
	later := now.Add(2 * time.Hour)

	d, s := withView(t, realm, before, later, sealing.View{Mode: sealing.Encrypt, Unavailable: true})
	if len(d.record.Keys) != 1 || !d.record.Disabled || d.request.Generate != signingkey.ES256 {
		t.Errorf("record %+v, request %v", d.record, d.request)
	}
	if got := reasonOf(s, v1alpha1.ConditionKeysEncrypted); got != "False KMSUnavailable" {
		t.Errorf("KeysEncrypted is %s", got)
	}
	successor := sealedKey(t, "1")
	view := sealing.View{Mode: sealing.Encrypt, Generated: &successor}
	d, s = withView(t, realm, before, later, view)
	if len(d.record.Keys) != 2 || d.request.Urgent() || reasonOf(s, v1alpha1.ConditionKeysEncrypted) != "True KeysEncrypted" {
		t.Errorf("record %+v, request %v, %s", d.record, d.request, reasonOf(s, v1alpha1.ConditionKeysEncrypted))
	}
	checkNoPrivateMember(t, written(t, realm, d))
	// The sealer still has the key until the record shows it.
	again, _ := withView(t, realm, written(t, realm, d), later, view)
	if len(again.record.Keys) != 2 || again.request.Urgent() {
		t.Errorf("got %+v, request %v", again.record, again.request)
	}
}

// A key doesn't sign before each live token server has decrypted it. A key in plaintext doesn't wait for
// servers that say they need a plugin.
func TestNextKeyWaitsForTokenServers(t *testing.T) {
	first, successor := sealedKey(t, "1"), sealedKey(t, "1")
	for name, test := range map[string]struct {
		first, next      sealing.View
		undecrypted      []string
		want             bool
		wantInTheMessage string
	}{
		"decrypted by all": {
			first: sealing.View{Mode: sealing.Encrypt, Generated: &first}, next: sealing.View{Mode: sealing.Encrypt, Generated: &successor}, want: true,
		},
		"not decrypted by two": {
			first: sealing.View{Mode: sealing.Encrypt, Generated: &first}, next: sealing.View{Mode: sealing.Encrypt, Generated: &successor},
			undecrypted: []string{"a", "b"}, wantInTheMessage: "These have not: a, b.",
		},
		"not decrypted by many": {
			first: sealing.View{Mode: sealing.Encrypt, Generated: &first}, next: sealing.View{Mode: sealing.Encrypt, Generated: &successor},
			undecrypted: []string{"a", "b", "c", "d", "e", "f", "g"}, wantInTheMessage: "These have not: a, b, c, d, e, and 2 more.",
		},
		"in plaintext": {undecrypted: []string{"a"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			realm := acme(func(*v1alpha1.Realm) {})
			d, _ := withView(t, realm, nil, now, test.first)
			realm.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(time.Hour)}
			d, _ = withView(t, realm, written(t, realm, d), now.Add(2*time.Hour), test.next)
			seen := observed{
				realm: realm, record: written(t, realm, d), state: acknowledgement.Acknowledged, undecrypted: test.undecrypted, sealing: test.next,
			}
			d, err := decide(seen, instance(), now.Add(3*time.Hour), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.record.Keys) != 2 || d.record.Keys[1].State != signingkey.Pending || d.record.Keys[1].PublishedAt.IsZero() == test.want {
				t.Errorf("the keys are %+v", d.record.Keys)
			}
			s := status(realm, d, &seen.state, instance(), now)
			c := meta.FindStatusCondition(s.Conditions, string(v1alpha1.ConditionKeysEncrypted))
			if test.wantInTheMessage != "" && !strings.Contains(c.Message, test.wantInTheMessage) {
				t.Errorf("the condition is %+v", c)
			}
		})
	}
}

// If the record can't be written, KeysEncrypted describes the keys that are in it.
func TestKeysEncryptedAfterAFailedWrite(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	plain := recorded(t, realm, now, nil)
	body, err := record.ReadRealm(plain)
	if err != nil {
		t.Fatal(err)
	}
	sealed, first := sealFor(body.Keys[0], "1"), sealedKey(t, "1")
	for name, test := range map[string]struct {
		before *corev1.Secret
		view   sealing.View
	}{
		"a key in plaintext": {plain, sealing.View{Mode: sealing.Encrypt, Converted: map[string]signingkey.Key{sealed.ID: sealed}}},
		"the first key":      {nil, sealing.View{Mode: sealing.Encrypt, Generated: &first}},
	} {
		d, s := withView(t, realm, test.before, now, test.view)
		if got := reasonOf(s, v1alpha1.ConditionKeysEncrypted); got != "True KeysEncrypted" {
			t.Errorf("%s: written: KeysEncrypted is %s", name, got)
		}
		failed := status(realm, d, nil, instance(), now)
		if got := reasonOf(failed, v1alpha1.ConditionKeysEncrypted); got != "Unknown Progressing" {
			t.Errorf("%s: not written: KeysEncrypted is %s", name, got)
		}
	}
}

func TestEncryptionOfRecordedKeys(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	plain := recorded(t, realm, now, nil)
	body, err := record.ReadRealm(plain)
	if err != nil {
		t.Fatal(err)
	}
	sealed := sealFor(body.Keys[0], "1")
	converted := map[string]signingkey.Key{sealed.ID: sealed}
	body.Keys = []signingkey.Key{sealed}
	encrypted := written(t, realm, decision{record: &body})
	for name, test := range map[string]struct {
		record     *corev1.Secret
		view       sealing.View
		wantSealed bool
		wantUrgent bool
		want       string // the condition
	}{
		"no encryption":                 {plain, sealing.View{}, false, false, ""},
		"plaintext":                     {plain, sealing.View{Mode: sealing.Encrypt}, false, true, "Unknown Progressing"},
		"plaintext, plugin fails":       {plain, sealing.View{Mode: sealing.Encrypt, Unavailable: true}, false, true, "False KMSUnavailable"},
		"plaintext, result is known":    {plain, sealing.View{Mode: sealing.Encrypt, Converted: converted}, true, false, "True KeysEncrypted"},
		"encrypted":                     {encrypted, sealing.View{Mode: sealing.Encrypt, KeyID: "1"}, true, false, "True KeysEncrypted"},
		"encrypted with another key":    {encrypted, sealing.View{Mode: sealing.Encrypt, KeyID: "2"}, true, false, "True KeysEncrypted"},
		"encrypted, no configuration":   {encrypted, sealing.View{}, true, false, "False KMSNotConfigured"},
		"to be decrypted":               {encrypted, sealing.View{Mode: sealing.Decrypt}, true, true, "Unknown Progressing"},
		"to be decrypted, plugin fails": {encrypted, sealing.View{Mode: sealing.Decrypt, Unavailable: true}, true, true, "False KMSUnavailable"},
		"decrypted":                     {plain, sealing.View{Mode: sealing.Decrypt}, false, false, "False EncryptionDisabled"},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := withView(t, realm, test.record, now, test.view)
			if got := d.record.Keys[0].Sealed() != nil; got != test.wantSealed {
				t.Errorf("sealed: %t, want %t", got, test.wantSealed)
			}
			if got := d.request.Urgent(); got != test.wantUrgent {
				t.Errorf("urgent: %t, want %t", got, test.wantUrgent)
			}
			if got := reasonOf(s, v1alpha1.ConditionKeysEncrypted); got != test.want {
				t.Errorf("KeysEncrypted is %q, want %q", got, test.want)
			}
			if got := reasonOf(s, v1alpha1.ConditionReady); got != "True Ready" {
				t.Errorf("Ready is %s", got)
			}
		})
	}
}

// Encrypted keys without a configured plugin are kept, and no key in plaintext is added.
func TestNoRotationWithEncryptedKeysAndNoPlugin(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	first := sealedKey(t, "1")
	d, _ := withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt, Generated: &first})
	before := written(t, realm, d)
	realm.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(time.Hour)}
	d, _ = withView(t, realm, before, now.Add(2*time.Hour), sealing.View{})
	if len(d.record.Keys) != 1 || !bytes.Equal(written(t, realm, d).Data[record.DataKey], before.Data[record.DataKey]) {
		t.Errorf("got %+v", d.record.Keys)
	}
}

func TestKeyOfAnotherRealmMakesTheRecordUnreadable(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	first := sealedKey(t, "1")
	d, _ := withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt, Generated: &first})
	sealed := *d.record.Keys[0].Sealed()
	sealed.RealmUID = "22222222-2222-2222-2222-222222222222"
	d.record.Keys[0] = d.record.Keys[0].Seal(sealed)
	_, s := withView(t, realm, written(t, realm, d), now, sealing.View{Mode: sealing.Encrypt})
	if got := reasonOf(s, v1alpha1.ConditionReady); got != "False KeysUnreadable" {
		t.Errorf("Ready is %s", got)
	}
}

// A new realm signs with the restored key, and waits until the key is encrypted for it. A realm with a
// key doesn't wait.
func TestRestoredKeysWaitForThePlugin(t *testing.T) {
	restore, restoredKey, _ := restorable(t)
	realm := acme(func(*v1alpha1.Realm) {})
	own := sealedKey(t, "1")
	first, _ := withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt, Generated: &own})
	existing := written(t, realm, first)
	decideWith := func(before *corev1.Secret, view sealing.View) (decision, v1alpha1.RealmStatus) {
		seen := observed{realm: realm, record: before, sealing: view}
		seen.readRestore(restore)
		d, err := decide(seen, instance(), now, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return d, status(realm, d, nil, instance(), now)
	}

	d, s := decideWith(nil, sealing.View{Mode: sealing.Encrypt, Unavailable: true})
	if d.record != nil || d.adopts || len(d.request.Convert) != 1 || d.request.Generate != "" {
		t.Errorf("new realm: record %+v, adopts %t, request %+v", d.record, d.adopts, d.request)
	}
	if got := reasonOf(s, v1alpha1.ConditionReady); got != "False KMSUnavailable" {
		t.Errorf("new realm: Ready is %s", got)
	}
	converted := map[string]signingkey.Key{restoredKey: sealFor(d.request.Convert[0], "1")}
	d, _ = decideWith(existing, sealing.View{Mode: sealing.Encrypt})
	if d.adopts || len(d.record.Keys) != 1 || d.record.Restored != nil {
		t.Errorf("existing realm: adopts %t, record %+v", d.adopts, d.record)
	}
	for name, before := range map[string]*corev1.Secret{"new realm": nil, "existing realm": existing} {
		d, _ := decideWith(before, sealing.View{Mode: sealing.Encrypt, Converted: converted})
		if !d.adopts || d.request.Urgent() || d.record.Restored == nil {
			t.Errorf("%s: adopts %t, record %+v, request %+v", name, d.adopts, d.record, d.request)
		}
		checkNoPrivateMember(t, written(t, realm, d))
		if got, want := signingkey.ActiveID(d.record.Keys), map[string]string{"new realm": restoredKey, "existing realm": own.ID}[name]; got != want {
			t.Errorf("%s: key %s signs, want %s", name, got, want)
		}
	}
}

// The KMS may no longer decrypt an old key of a backup. A restore doesn't wait for a key that verifies no
// valid token, or that the realm has already.
func TestUnneededRestoredKeysAreNotConverted(t *testing.T) {
	restore, signs, _ := restorable(t)
	realm := acme(func(*v1alpha1.Realm) {})
	foreign := signingkey.Sealed{RealmUID: "0", KeyID: "lost", EncryptedDataKey: []byte("x"), Ciphertext: []byte("x")}
	retired := sealedKey(t, "1")
	retired.State, retired.ActiveAt, retired.RetiredAt, retired.LongestLifetime = signingkey.Retiring, now.Add(-96*time.Hour), now.Add(-72*time.Hour), 2*time.Hour
	own := sealedKey(t, "1")
	first, _ := withView(t, realm, nil, now, sealing.View{Mode: sealing.Encrypt, Generated: &own})
	existing := written(t, realm, first)
	for name, test := range map[string]struct {
		before *corev1.Secret
		add    signingkey.Key
		wait   bool
	}{
		"expired":                      {nil, retired, false},
		"expired, existing realm":      {existing, retired, false},
		"the realm has it already":     {existing, first.record.Keys[0], false},
		"it verifies a valid token":    {nil, with(retired, func(k *signingkey.Key) { k.RetiredAt = now.Add(-time.Hour) }), true},
		"token servers may still sign": {nil, with(retired, func(k *signingkey.Key) { k.RetiredAt = time.Time{} }), true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed{realm: realm, record: test.before}
			seen.readRestore(restore)
			added := test.add.Seal(foreign)
			added.State = signingkey.Retiring
			converted := map[string]signingkey.Key{signs: sealFor(seen.restored.Realm.Keys[0], "1")}
			seen.sealing = sealing.View{Mode: sealing.Encrypt, Converted: converted, Unavailable: test.wait}
			seen.restored.Realm.Keys = append(seen.restored.Realm.Keys, added)
			d, err := decide(seen, instance(), now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if d.adopts == test.wait || d.request.Urgent() != test.wait {
				t.Fatalf("adopts %t, request %+v; want to wait: %t", d.adopts, d.request, test.wait)
			}
			if test.wait {
				s := status(realm, d, nil, instance(), now)
				message := meta.FindStatusCondition(s.Conditions, string(v1alpha1.ConditionKeysEncrypted)).Message
				if want := "kubectl delete secret " + restore.Name + " -n records"; !strings.Contains(message, want) {
					t.Errorf("the message %q does not contain %q", message, want)
				}
				return
			}
			// The restored realm may have issued tokens with its longest lifetime after the backup.
			for _, key := range d.record.Keys {
				if key.ID == signs && test.add.ID == retired.ID && key.LongestLifetime != 2*time.Hour {
					t.Errorf("the longest lifetime of the restored key is %s", key.LongestLifetime)
				}
			}
			if _, err := record.ReadRealm(written(t, realm, d)); err != nil {
				t.Error(err)
			}
		})
	}
}

func with(key signingkey.Key, change func(*signingkey.Key)) signingkey.Key {
	change(&key)
	return key
}

// Encrypted keys of a backup can't be restored without the KMS plugin. The restore record stays.
func TestEncryptedBackupWithoutPlugin(t *testing.T) {
	restore, _, _ := restorable(t)
	realm := acme(func(*v1alpha1.Realm) {})
	seen := observed{realm: realm}
	seen.readRestore(restore)
	key := seen.restored.Realm.Keys[0]
	seen.restored.Realm.Keys[0] = key.Seal(signingkey.Sealed{RealmUID: "0", KeyID: "1", EncryptedDataKey: []byte("x"), Ciphertext: []byte("x")})
	d, err := decide(seen, instance(), now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if got := reasonOf(status(realm, d, nil, instance(), now), v1alpha1.ConditionReady); d.record != nil || d.adopts || got != "False KMSNotConfigured" {
		t.Errorf("record %+v, adopts %t, Ready is %s", d.record, d.adopts, got)
	}
	if got, want := d.encryption.condition().Message, "kubectl delete secret "+restore.Name+" -n records"; !strings.Contains(got, want) {
		t.Errorf("the message %q does not contain %q", got, want)
	}
}
