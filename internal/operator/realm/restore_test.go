package realm

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// restorable returns a restore record of another Realm with the same name, its key, and the time before
// which its tokens were revoked.
func restorable(t *testing.T) (secret *corev1.Secret, key string, revoked time.Time) {
	t.Helper()
	revoked = now.Add(-48 * time.Hour)
	deleted := acme(func(r *v1alpha1.Realm) { r.UID, r.Spec.TokensValidAfter = "0", &metav1.Time{Time: revoked} })
	body, err := record.ReadRealm(recorded(t, deleted, now.Add(-72*time.Hour), nil))
	if err != nil {
		t.Fatal(err)
	}
	desired, err := record.ForRestore("records", record.RestoreRealm(body, now.Add(-24*time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	if secret, err = apply.Convert[corev1.Secret](desired); err != nil {
		t.Fatal(err)
	}
	secret.UID = "s1"
	return secret, body.Keys[0].ID, revoked
}

func TestDecideAdoptsRestoreRecord(t *testing.T) {
	good, restoredKey, revoked := restorable(t)
	adopted := func(to string) *corev1.Secret {
		s := good.DeepCopy()
		s.Annotations[v1alpha1.AdoptedByAnnotation] = to
		return s
	}
	damaged := good.DeepCopy()
	damaged.Data = nil
	realm := acme(func(*v1alpha1.Realm) {})
	own := recorded(t, realm, now.Add(-time.Hour), nil)
	ownBody, err := record.ReadRealm(own)
	if err != nil {
		t.Fatal(err)
	}
	ownKey := ownBody.Keys[0].ID
	for name, test := range map[string]struct {
		record, restore *corev1.Secret
		wantSigns       string // empty: a new key
		wantVerifies    []string
		wantReason      v1alpha1.ConditionReason
	}{
		"no restore record":          {own, nil, ownKey, nil, ""},
		"new realm":                  {nil, good, restoredKey, nil, v1alpha1.ReasonRestoredFromBackup},
		"realm that exists already":  {own, good, ownKey, []string{restoredKey}, v1alpha1.ReasonRestoredFromBackup},
		"adopted by the realm":       {nil, adopted(string(realm.UID)), restoredKey, nil, v1alpha1.ReasonRestoredFromBackup},
		"adopted by a deleted realm": {nil, adopted("0"), "", nil, v1alpha1.ReasonRestoreRecordIgnored},
		"damaged record":             {own, damaged, ownKey, nil, v1alpha1.ReasonRestoreRecordIgnored},
		"damaged record, no key yet": {nil, damaged, "", nil, v1alpha1.ReasonRestoreRecordIgnored},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed{realm: realm, record: test.record, state: acknowledgement.Acknowledged}
			seen.readRestore(test.restore)
			d, err := decide(seen, instance(), now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			signs := signingkey.ActiveID(d.record.Keys)
			if test.wantSigns == "" && (signs == ownKey || signs == restoredKey) || test.wantSigns != "" && signs != test.wantSigns {
				t.Errorf("key %s signs, want %s", signs, test.wantSigns)
			}
			var verifies []string
			for _, k := range d.record.Keys {
				if k.State == signingkey.Retiring {
					verifies = append(verifies, k.ID)
				}
				// Token servers don't have the restored keys yet.
				if k.ID == restoredKey && !k.RetiredAt.IsZero() {
					t.Errorf("key %s has already retired", k.ID)
				}
			}
			if diff := cmp.Diff(test.wantVerifies, verifies); diff != "" {
				t.Errorf("keys that only verify (-want +got):\n%s", diff)
			}
			reason, adopts := v1alpha1.ConditionReason(""), test.wantReason == v1alpha1.ReasonRestoredFromBackup
			if result := restored(d.ignored, d.restored); result != nil {
				reason = result.Reason
			}
			if reason != test.wantReason || d.adopts != adopts || d.record.TokensValidAfter.Equal(revoked) != adopts {
				t.Errorf("reason %q, adopts %t, tokens valid after %s; want %q", reason, d.adopts, d.record.TokensValidAfter, test.wantReason)
			}
			if !adopts {
				return
			}
			// A crash before the restore record is deleted changes nothing.
			again := observed{realm: realm, record: written(t, realm, d)}
			again.readRestore(adopted(string(realm.UID)))
			next, err := decide(again, instance(), now, rand.Reader)
			if err != nil || next.adopts || !record.Equal(*d.record, *next.record) {
				t.Errorf("deciding again adopts %t, record %+v, %v", next.adopts, next.record, err)
			}
		})
	}
}

// A rejected Realm adopts its restore record after it is accepted.
func TestRejectedRealmDoesNotAdopt(t *testing.T) {
	good, _, _ := restorable(t)
	realm := acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 24 * time.Hour} })
	seen := observed{realm: realm}
	seen.readRestore(good)
	d, err := decide(seen, instance(), now, rand.Reader)
	if err != nil || d.adopts || d.record != nil {
		t.Errorf("adopts %t, record %+v, %v", d.adopts, d.record, err)
	}
}

// The status doesn't claim a restoration whose record was not written.
func TestStatusOfUnwrittenRestoration(t *testing.T) {
	good, _, _ := restorable(t)
	realm := acme(func(*v1alpha1.Realm) {})
	seen := observed{realm: realm}
	seen.readRestore(good)
	d, err := decide(seen, instance(), now, rand.Reader)
	if err != nil || !d.adopts {
		t.Fatalf("adopts %t, %v", d.adopts, err)
	}
	for _, state := range []*acknowledgement.State{nil, new(acknowledgement.Acknowledged)} {
		s := status(realm, d, state, instance(), now)
		if got := meta.IsStatusConditionTrue(s.Conditions, string(v1alpha1.ConditionRestored)); got != (state != nil) {
			t.Errorf("record written: %t; Restored: %t", state != nil, got)
		}
	}
}

// A second restore doesn't accept tokens again that the first one rejected.
func TestSecondRestoreKeepsRevocation(t *testing.T) {
	good, _, revoked := restorable(t)
	realm := acme(func(*v1alpha1.Realm) {})
	for name, earlier := range map[string]time.Time{"earlier": revoked.Add(-time.Hour), "later": revoked.Add(time.Hour)} {
		own := recorded(t, realm, now.Add(-time.Hour), nil)
		body, err := record.ReadRealm(own)
		if err != nil {
			t.Fatal(err)
		}
		body.Restored = &record.Restoration{From: "s0", TokensValidAfter: earlier}
		seen := observed{realm: realm, record: written(t, realm, decision{record: &body})}
		seen.readRestore(good)
		d, err := decide(seen, instance(), now, rand.Reader)
		want := revoked
		if earlier.After(revoked) {
			want = earlier
		}
		if err != nil || !d.adopts || !d.record.TokensValidAfter.Equal(want) || !d.restored.TokensValidAfter.Equal(want) {
			t.Errorf("%s: tokens valid after %s, want %s; %v", name, d.record.TokensValidAfter, want, err)
		}
	}
}
