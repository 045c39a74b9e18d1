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

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// sealedKey returns a key that is encrypted for acme.
func sealedKey(t *testing.T, kmsKey string) signingkey.Key {
	t.Helper()
	key := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
	return key.Seal(signingkey.Sealed{
		RealmUID: string(acme(func(*v1beta1.Realm) {}).UID), KeyID: kmsKey, EncryptedDataKey: []byte("x"), Ciphertext: []byte("x"),
	})
}

// decideWith decides with the mode of the encryption, and with a key that the plugin has encrypted, or nil.
func decideWith(t *testing.T, realm *v1beta1.Realm, before *corev1.Secret, at time.Time, mode sealing.Mode, generated *signingkey.Key) (decision, v1beta1.RealmStatus) {
	t.Helper()
	seen := observed{realm: realm, record: before, mode: mode, generated: generated}
	if before != nil {
		seen.state = acknowledgement.Acknowledged
	}
	d := decidedAt(t, seen, at)
	state := acknowledgement.Acknowledged
	if d.record == nil && before == nil {
		return d, status(realm, d, nil, instance())
	}
	return d, status(realm, d, &state, instance())
}

// encrypted returns the record of a realm whose first key is encrypted.
func encrypted(t *testing.T, realm *v1beta1.Realm) *corev1.Secret {
	t.Helper()
	return settled(t, realm, sealing.Encrypt)
}

// settled returns the record of a realm whose first key is Active.
func settled(t *testing.T, realm *v1beta1.Realm, mode sealing.Mode) *corev1.Secret {
	t.Helper()
	first := sealedKey(t, "1")
	d, _ := decideWith(t, realm, nil, now, mode, &first)
	d, _ = decideWith(t, realm, written(t, realm, d), now, mode, nil)
	return written(t, realm, d)
}

func reasonOf(s v1beta1.RealmStatus, kind v1beta1.ConditionType) string {
	c := meta.FindStatusCondition(s.Conditions, string(kind))
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func TestFirstKeyWaitsForThePlugin(t *testing.T) {
	realm := acme(func(*v1beta1.Realm) {})
	d, s := decideWith(t, realm, nil, now, sealing.Encrypt, nil)
	if d.record != nil || d.generate != signingkey.ES256 {
		t.Errorf("record %v, generate %q", d.record, d.generate)
	}
	if got := reasonOf(s, v1beta1.ConditionReady); got != "Unknown Progressing" {
		t.Errorf("Ready is %s", got)
	}
	d.encryption.failed = true
	s = status(realm, d, nil, instance())
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionReady, v1beta1.ConditionProgrammed, v1beta1.ConditionKeysEncrypted} {
		if got := reasonOf(s, kind); got != "False KMSUnavailable" {
			t.Errorf("%s is %s", kind, got)
		}
	}

	key := sealedKey(t, "1")
	d, s = decideWith(t, realm, nil, now, sealing.Encrypt, &key)
	if d.record == nil || len(d.record.Keys) != 1 || d.record.Keys[0].State != signingkey.Pending || d.generate != "" {
		t.Fatalf("record %v, generate %q", d.record, d.generate)
	}
	if got := reasonOf(s, v1beta1.ConditionKeysEncrypted); got != "True KeysEncrypted" {
		t.Errorf("KeysEncrypted is %s", got)
	}
	checkNoPrivateMember(t, written(t, realm, d))
}

// An RSA key takes long to generate, so a restriction of the same realm doesn't wait for it.
func TestRSAKeyComesFromTheSealer(t *testing.T) {
	for name, test := range map[string]struct {
		mode         sealing.Mode
		before       *corev1.Secret
		wantBefore   string // keys in the record while the key is being generated
		wantDisabled bool
		wantReady    string
		want         string
	}{
		"first key": {sealing.Off, nil, "", false, "Unknown Progressing", "RS256 Pending"},
		"rotation":  {sealing.Off, settled(t, acme(func(*v1beta1.Realm) {}), sealing.Off), "ES256 Active", true, "False Suspended", "ES256 Active, RS256 Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			realm := acme(func(r *v1beta1.Realm) {
				r.Spec.Signing.Algorithm, r.Spec.Suspend = v1beta1.SigningAlgorithmRS256, test.before != nil
			})
			d, s := decideWith(t, realm, test.before, now.Add(time.Hour), test.mode, nil)
			var keys string
			if d.record != nil {
				keys = states(d.record.Keys)
			}
			if d.generate != signingkey.RS256 || keys != test.wantBefore || d.record != nil && d.record.Disabled != test.wantDisabled {
				t.Errorf("generate %q, record %+v, want keys %q and disabled %t", d.generate, d.record, test.wantBefore, test.wantDisabled)
			}
			if ready := reasonOf(s, v1beta1.ConditionReady); ready != test.wantReady {
				t.Errorf("Ready is %s, want %s", ready, test.wantReady)
			}
			key := testkit.Value(signingkey.Generate(signingkey.RS256, now, rand.Reader))(t)
			d, _ = decideWith(t, realm, test.before, now.Add(time.Hour), test.mode, &key)
			if got := states(d.record.Keys); got != test.want || d.generate != "" {
				t.Errorf("keys %q, generate %q, want %q", got, d.generate, test.want)
			}
		})
	}
}

// A first key that must be replaced before it signs keeps its place until the plugin has encrypted another
// one. A restriction doesn't wait for that.
func TestReplacedFirstKeyWaitsForThePlugin(t *testing.T) {
	realm, first := acme(func(*v1beta1.Realm) {}), sealedKey(t, "1")
	d, _ := decideWith(t, realm, nil, now, sealing.Encrypt, &first)
	realm.Spec.Signing.Algorithm, realm.Spec.Suspend = v1beta1.SigningAlgorithmEdDSA, true
	d, _ = decideWith(t, realm, written(t, realm, d), now, sealing.Encrypt, nil)
	if states(d.record.Keys) != "ES256 Pending" || !d.record.Disabled || d.generate != signingkey.EdDSA {
		t.Errorf("keys %s, disabled %t, generate %q", states(d.record.Keys), d.record.Disabled, d.generate)
	}
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
	testkit.Do(t, json.Unmarshal(secret.Data[record.DataKey], &stored))
	for _, key := range stored.Body.Keys {
		if _, ok := key.JWK["d"]; ok {
			t.Errorf("key %v has a private member", key.JWK["kid"])
		}
	}
}

// A key doesn't sign before each live token server has decrypted it. A key in plaintext doesn't wait for
// servers that say they need a plugin.
func TestNextKeyWaitsForTokenServers(t *testing.T) {
	for name, test := range map[string]struct {
		mode             sealing.Mode
		undecrypted      []string
		want             bool
		wantInTheMessage string
	}{
		"not decrypted by many": {mode: sealing.Encrypt, undecrypted: []string{"a", "b", "c", "d", "e", "f", "g"}, wantInTheMessage: "These have not: a, b, c, d, e, and 2 more."},
		"in plaintext":          {undecrypted: []string{"a"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			realm := acme(func(*v1beta1.Realm) {})
			before, successor := settled(t, realm, test.mode), sealedKey(t, "1")
			realm.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now.Add(time.Hour)}
			d, _ := decideWith(t, realm, before, now.Add(2*time.Hour), test.mode, &successor)
			seen := observed{
				realm: realm, record: written(t, realm, d), state: acknowledgement.Acknowledged, undecrypted: test.undecrypted, mode: test.mode,
			}
			d = decidedAt(t, seen, now.Add(3*time.Hour))
			if len(d.record.Keys) != 2 || d.record.Keys[1].State != signingkey.Pending || d.record.Keys[1].PublishedAt.IsZero() == test.want {
				t.Errorf("the keys are %+v", d.record.Keys)
			}
			s := status(realm, d, &seen.state, instance())
			c := meta.FindStatusCondition(s.Conditions, string(v1beta1.ConditionKeysEncrypted))
			if test.wantInTheMessage != "" && !strings.Contains(c.Message, test.wantInTheMessage) {
				t.Errorf("the condition is %+v", c)
			}
		})
	}
}

// A key that was published doesn't become Active while a server that has restarted since can't decrypt it.
func TestPublishedKeyWaitsForTokenServers(t *testing.T) {
	realm := acme(func(*v1beta1.Realm) {})
	before, successor := settled(t, realm, sealing.Encrypt), sealedKey(t, "1")
	realm.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now.Add(time.Hour)}
	d, _ := decideWith(t, realm, before, now.Add(2*time.Hour), sealing.Encrypt, &successor)
	for i, undecrypted := range [][]string{nil, {"a"}, nil} {
		seen := observed{realm: realm, record: written(t, realm, d), state: acknowledgement.Acknowledged, undecrypted: undecrypted, mode: sealing.Encrypt}
		published := !d.record.Keys[1].PublishedAt.IsZero()
		d = decidedAt(t, seen, now.Add(time.Duration(i+1)*10*time.Hour))
		if want := published && undecrypted == nil; want != (d.record.Keys[1].State == signingkey.Active) {
			t.Errorf("published: %t, not decrypted by %q: the keys are %+v", published, undecrypted, d.record.Keys)
		}
	}
}

// A rotation replaces keys that are stored in another form than new ones.
func TestRotationIsTheMigration(t *testing.T) {
	for name, test := range map[string]struct {
		before, after sealing.Mode
		want          []string // the condition before, during, and after the rotation
	}{
		"encryption is enabled":  {sealing.Off, sealing.Encrypt, []string{"False RotationRequired", "Unknown Progressing", "True KeysEncrypted"}},
		"encryption is disabled": {sealing.Encrypt, sealing.Decrypt, []string{"False RotationRequired", "Unknown Progressing", "False EncryptionDisabled"}},
		"the plugin is missing":  {sealing.Encrypt, sealing.Off, []string{"False KMSNotConfigured", "False KMSNotConfigured", "False KMSNotConfigured"}},
		"without encryption":     {sealing.Off, sealing.Off, []string{"", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			realm := acme(func(*v1beta1.Realm) {})
			secret, successor := settled(t, realm, test.before), sealedKey(t, "2")
			var d decision
			var got []string
			decided := func(at time.Time) {
				var s v1beta1.RealmStatus
				d, s = decideWith(t, realm, secret, at, test.after, &successor)
				secret = written(t, realm, d)
				got = append(got, reasonOf(s, v1beta1.ConditionKeysEncrypted))
				if ready := reasonOf(s, v1beta1.ConditionReady); ready != "True Ready" {
					t.Errorf("Ready is %s", ready)
				}
			}
			decided(now.Add(time.Minute))
			realm.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now.Add(time.Hour)}
			at := now.Add(2 * time.Hour)
			decided(at)
			d, _ = decideWith(t, realm, secret, at, test.after, nil) // the token servers publish the next key
			secret = written(t, realm, d)
			decided(at.Add(2 * time.Hour))
			testkit.Diff(t, "KeysEncrypted", test.want, got)
			if test.after == sealing.Encrypt {
				checkNoPrivateMember(t, secret)
			}
			for _, key := range d.record.Keys {
				if key.State == signingkey.Retiring && (key.InPlaintext() || key.Sealed() != nil) {
					t.Errorf("the retiring key %s has a private part", key.ID)
				}
			}
		})
	}
}

// Encrypted keys without a configured plugin are kept, and no key in plaintext is added.
func TestNoRotationWithEncryptedKeysAndNoPlugin(t *testing.T) {
	realm := acme(func(*v1beta1.Realm) {})
	before := encrypted(t, realm)
	realm.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now.Add(time.Hour)}
	d, _ := decideWith(t, realm, before, now.Add(2*time.Hour), sealing.Off, nil)
	if len(d.record.Keys) != 1 || !bytes.Equal(written(t, realm, d).Data[record.DataKey], before.Data[record.DataKey]) {
		t.Errorf("got %+v", d.record.Keys)
	}
}

// The API server's word on the token servers includes whether they have decrypted the next key, unless it is in
// plaintext.
func TestConfirmedKeyIsDecrypted(t *testing.T) {
	for state, want := range map[signingkey.State]string{signingkey.Pending: "acme", signingkey.Active: ""} {
		sealed, plaintext := sealedKey(t, "1"), testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
		sealed.State = state
		if got := servedWithKeys(&corev1.Secret{}, "acme", []signingkey.Key{plaintext, sealed}).PendingKeyOf; got != want {
			t.Errorf("%s: the key of %q must be decrypted, want %q", state, got, want)
		}
	}
}
