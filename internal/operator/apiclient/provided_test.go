package apiclient

import (
	"crypto/rand"
	"strconv"
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
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

const (
	password    = "correct horse battery staple"
	newPassword = "Tr0ub4dor&3 and some more"
)

// withProvided makes the spec refer to the Secret "billing-password", with an overlap.
func withProvided(overlap time.Duration) func(*observed) {
	return func(seen *observed) {
		seen.client.Spec.Secret = &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{
			SecretRef: v1beta1.SecretKeyReference{Name: "billing-password"}, Overlap: &v1beta1.Duration{Duration: overlap},
		}}
	}
}

// withHashes lists the given hashes in the spec.
func withHashes(hashes ...v1beta1.HashedSecret) func(*observed) {
	return func(seen *observed) { seen.client.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: hashes} }
}

func withGenerated(seen *observed) { withRotation(seen) }

// providedSecret returns the Secret "billing-password" with the given resource version and value.
func providedVersionOf(version int, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "billing-password", UID: "v1", ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided},
		},
		Data: map[string][]byte{"client_secret": []byte(value)},
	}
}

// hashProvided hashes the provided secret unless its version is recorded.
func hashProvided(t *testing.T, seen *observed) {
	t.Helper()
	seen.value = providedsecrets.Result{}
	if secretSource(seen.client).Provided == nil || seen.provided == nil || seen.providedUnchanged() {
		return
	}
	seen.value = testkit.Value(providedsecrets.Hash(seen.provided.Data, providedKey(seen.client), seen.recordedProvided().Hash, rand.Reader))(t)
}

func hashOf(t *testing.T, id, secret string) v1beta1.HashedSecret {
	t.Helper()
	verifier := testkit.Value(clientsecret.Hash(secret, rand.Reader))(t)
	return v1beta1.HashedSecret{ID: id, Hash: verifier.String()}
}

// wantAccepted checks which secrets token servers accept at the given time.
func wantAccepted(t *testing.T, seen *observed, at time.Time, want map[string]bool) {
	t.Helper()
	current := unexpired(seen.recorded.Secrets, at)
	if len(current) > 2 {
		t.Errorf("%d secrets, want at most two", len(current))
	}
	for secret, accepted := range want {
		if got := !seen.recorded.Disabled && verifies(current, secret); got != accepted {
			t.Errorf("%q accepted: %t, want %t", secret, got, accepted)
		}
	}
}

// A value is hashed once, and a cache that lags doesn't bring back an older one.
func TestProvidedVersions(t *testing.T) {
	seen := observe(withProvided(0))
	seen.provided = providedVersionOf(5, password)
	step(t, &seen, now)
	for version, want := range map[int]bool{4: true, 5: true, 6: false} {
		seen.provided = providedVersionOf(version, newPassword)
		if got := seen.providedUnchanged(); got != want {
			t.Errorf("version %d after 5: unchanged %t", version, got)
		}
	}
}

// A spec that refers to a different Secret takes effect even if that Secret is older than the one in
// the record. Otherwise, a client that moves away from a leaked secret would keep it.
func TestOlderProvidedSecretReplacesNewer(t *testing.T) {
	seen := observe(withProvided(0))
	seen.provided = providedVersionOf(9, password)
	step(t, &seen, now)
	seen.provided = providedVersionOf(3, newPassword)
	seen.provided.UID = "other"
	step(t, &seen, now)
	wantAccepted(t, &seen, now, map[string]bool{password: false, newPassword: true})
}

// A hash in a Secret is used like one in the spec. It is not read again while the Secret is the same, and
// a Secret that lacks it rejects the client.
func TestHashInSecret(t *testing.T) {
	const key = "hydra"
	a, b := hashOf(t, "a", "secret-a"), hashOf(t, "a", "secret-b")
	ref := v1beta1.HashSecretReference{Name: "billing-hashes", Key: key}
	secretOf := func(version, hash string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: ref.Name, UID: "s", ResourceVersion: version, Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}},
			Data:       map[string][]byte{key: []byte(hash)},
		}
	}
	seen := observe(withHashes(v1beta1.HashedSecret{ID: "a", HashSecretRef: ref}))
	seen.hashes = []listedHash{hashIn(secretOf("7", a.Hash+"\n"), ref)}
	step(t, &seen, now)
	wantAccepted(t, &seen, now, map[string]bool{"secret-a": true})
	if got := seen.recordedHash("a", hashSource(secretOf("7", ""), ref)); got != a.Hash {
		t.Errorf("the recorded hash of the same version is %q", got)
	}
	if got := seen.recordedHash("a", hashSource(secretOf("8", ""), ref)) + seen.recordedHash("b", hashSource(secretOf("7", ""), ref)); got != "" {
		t.Errorf("the recorded hash of another version or ID is %q", got)
	}
	seen.hashes = []listedHash{hashIn(secretOf("8", b.Hash), ref)}
	step(t, &seen, now)
	wantAccepted(t, &seen, now, map[string]bool{"secret-a": false, "secret-b": true})

	unlabeled, plaintext := secretOf("9", b.Hash), secretOf("9", "secret-b")
	unlabeled.Labels = nil
	for reason, secret := range map[v1beta1.ConditionReason]*corev1.Secret{
		v1beta1.ReasonSecretNotFound: nil, v1beta1.ReasonSecretNotLabeled: unlabeled, v1beta1.ReasonHashNotSupported: plaintext,
	} {
		seen.hashes = []listedHash{hashIn(secret, ref)}
		if got := accepted(&seen); got.Reason != reason || strings.Contains(got.Message, "secret-b") {
			t.Errorf("got %+v, want %s", got, reason)
		}
	}
	otherKey := ref
	otherKey.Key = "other"
	seen.hashes = []listedHash{hashIn(secretOf("9", b.Hash), otherKey)}
	if got := accepted(&seen); got.Reason != v1beta1.ReasonSecretNotFound || !strings.Contains(got.Message, `no key "other"`) {
		t.Errorf("another key: %+v", got)
	}
}

// A listed hash is accepted until it expires. Then the client has no secret, and it is Expired.
func TestHashedSecrets(t *testing.T) {
	a := hashOf(t, "a", "secret-a")
	a.ExpirationTime = &metav1.Time{Time: now.Add(2 * time.Hour)}
	seen := observe(withHashes(a))
	d := step(t, &seen, now)
	want := []record.ClientSecret{{ID: "a", CreatedAt: now, ExpiresAt: now.Add(2 * time.Hour), Hash: a.Hash, Source: "spec", Role: record.RoleCurrent}}
	testkit.Diff(t, "secrets", want, d.desired.Secrets)
	if next := requeueAfter(&seen, d); next != 2*time.Hour || d.credentials != nil {
		t.Errorf("requeue after %s, want 2h, when the hash expires; credentials Secret %v", next, d.credentials)
	}
	d = step(t, &seen, now.Add(2*time.Hour))
	wantAccepted(t, &seen, now.Add(2*time.Hour), map[string]bool{"secret-a": false})
	s := status(&seen, d, outcome{written: true, state: new(acknowledgement.Acknowledged)})
	ready := meta.FindStatusCondition(s.Conditions, string(v1beta1.ConditionReady))
	if len(s.Secrets()) != 0 || ready.Reason != string(v1beta1.ReasonExpired) {
		t.Errorf("without a valid hash: %+v", s)
	}
}

// Each kind of unusable secret is rejected with a specific reason, and its value does not appear in
// the message.
func TestUnusableSecretsAreRejected(t *testing.T) {
	with := func(value string) func(*observed) {
		return func(s *observed) { withProvided(0)(s); s.provided = providedVersionOf(1, value) }
	}
	for name, test := range map[string]struct {
		change func(*observed)
		want   v1beta1.ConditionReason
	}{
		"with 15 characters":                {with("fifteen-letters"), v1beta1.ReasonSecretTooShort},
		"with a line break":                 {with(password + "\n"), v1beta1.ReasonSecretNotUsable},
		"missing":                           {withProvided(0), v1beta1.ReasonSecretNotFound},
		"without the key":                   {func(s *observed) { with(password)(s); delete(s.provided.Data, "client_secret") }, v1beta1.ReasonSecretNotFound},
		"without the label":                 {func(s *observed) { with(password)(s); s.provided.Labels = nil }, v1beta1.ReasonSecretNotLabeled},
		"labeled as generated":              {func(s *observed) { with(password)(s); s.provided.Labels[v1beta1.ClientSecretLabel] = "generated" }, v1beta1.ReasonSecretNotLabeled},
		"a hash with an unsupported scheme": {withHashes(v1beta1.HashedSecret{ID: "a", Hash: "$2b$12$R9h/cIPz0gi.URNNX3kh2O"}), v1beta1.ReasonHashNotSupported},
		"a hash that costs 4 GiB":           {withHashes(v1beta1.HashedSecret{ID: "a", Hash: "$argon2id$v=19$m=4194304,t=2,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA"}), v1beta1.ReasonHashNotSupported},
		"a hash that is too weak":           {withHashes(v1beta1.HashedSecret{ID: "a", Hash: "$argon2id$v=19$m=19455,t=2,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA"}), v1beta1.ReasonHashNotSupported},
		"an imported hash":                  {withHashes(v1beta1.HashedSecret{ID: "a", Hash: bcryptHash}), v1beta1.ReasonAccepted},
		"an invalid hash":                   {withHashes(hashOf(t, "a", password), v1beta1.HashedSecret{ID: "b", Hash: "$hmac-sha256$" + password}), v1beta1.ReasonHashNotSupported},
		"conflicting credentials Secret":    {func(s *observed) { with(password)(s); s.credentials = providedVersionOf(1, password) }, v1beta1.ReasonAccepted},
		"generated, provided Secret exists": {func(s *observed) { s.provided = providedVersionOf(1, "short") }, v1beta1.ReasonAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(test.change)
			hashProvided(t, &seen)
			got := accepted(&seen)
			if got.Reason != test.want {
				t.Errorf("%s: %s, want %s", got.Reason, got.Message, test.want)
			}
			if strings.Contains(got.Message, password) || strings.Contains(got.Message, "fifteen") {
				t.Errorf("the message contains the secret: %s", got.Message)
			}
			d := decided(t, &seen, now)
			if (d.desired != nil) != (test.want == v1beta1.ReasonAccepted) || (d.credentials != nil) != (name == "generated, provided Secret exists") {
				t.Errorf("record %v, credentials Secret %v", d.desired, d.credentials)
			}
		})
	}
}

// While the value of a rejected client is hashed again, its status doesn't change, whether it has a record or
// not. A client that works isn't rejected because of an earlier result.
func TestResultWhileHashing(t *testing.T) {
	const tooShort = v1beta1.ReasonSecretTooShort
	for name, test := range map[string]struct {
		change func(*observed)
		want   v1beta1.ConditionReason
	}{
		"without a record":   {func(*observed) {}, tooShort},
		"disabled":           {func(s *observed) { s.recordSecret, s.recorded.Disabled = &corev1.Secret{}, true }, tooShort},
		"enabled":            {func(s *observed) { s.recordSecret = &corev1.Secret{} }, v1beta1.ReasonAccepted},
		"never checked":      {func(s *observed) { s.client.Status.Conditions = nil }, v1beta1.ReasonAccepted},
		"rejected otherwise": {func(s *observed) { s.client.Status.Conditions[0].Reason = string(v1beta1.ReasonNotGranted) }, v1beta1.ReasonAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(withProvided(time.Hour), func(s *observed) {
				s.provided, s.unhashed = providedVersionOf(2, "a new value"), true
				s.client.Status.Conditions = []metav1.Condition{{Type: string(v1beta1.ConditionAccepted), Status: metav1.ConditionFalse, Reason: string(tooShort)}}
			}, test.change)
			if got := accepted(&seen); got.Reason != test.want {
				t.Errorf("%s: %s, want %s", got.Reason, got.Message, test.want)
			}
			if d := decided(t, &seen, now); !d.waitsForHash {
				t.Errorf("the value is not hashed: %+v", d.accepted)
			}
		})
	}
}

// When the kind of secret changes, the client always has a valid secret, and its previous secret
// remains valid for the overlap.
func TestChangeOfSecretKind(t *testing.T) {
	byHash := hashOf(t, "a", "secret-a")
	kinds := map[string]struct {
		change  func(*observed)
		overlap time.Duration
		secret  func(*observed) string
	}{
		"generated": {withGenerated, time.Hour, deliveredSecret},
		"provided":  {func(s *observed) { withProvided(30 * time.Minute)(s); s.provided = providedVersionOf(1, password) }, 30 * time.Minute, func(*observed) string { return password }},
		"hashed":    {withHashes(byHash), 0, func(*observed) string { return "secret-a" }},
	}
	for from, before := range kinds {
		for to, after := range kinds {
			if from == to {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				seen := observe(before.change)
				seen.acknowledged = true
				own := func() {
					seen.owned = nil
					if seen.credentials != nil {
						seen.owned = []corev1.Secret{*seen.credentials}
					}
				}
				step(t, &seen, now)
				old := before.secret(&seen)
				after.change(&seen)
				own()
				at, acknowledged := now.Add(time.Minute), false
				for range 4 { // enough steps to complete the change
					seen.acknowledged = acknowledged
					d := step(t, &seen, at)
					if len(d.obsolete) > 0 {
						seen.credentials = nil
					}
					own()
					if fresh := after.secret(&seen); !verifies(unexpired(seen.recorded.Secrets, at), old) && !verifies(unexpired(seen.recorded.Secrets, at), fresh) {
						t.Fatal("no valid secret")
					}
					acknowledged = true
				}
				fresh := after.secret(&seen)
				wantAccepted(t, &seen, at, map[string]bool{old: after.overlap > 0, fresh: true})
				end := at.Add(after.overlap)
				d := step(t, &seen, end)
				if len(d.obsolete) > 0 {
					seen.credentials = nil
				}
				wantAccepted(t, &seen, end, map[string]bool{old: false, fresh: true})
				if (seen.credentials != nil) != (to == "generated") {
					t.Errorf("credentials Secret exists: %t, want %t", seen.credentials != nil, to == "generated")
				}
			})
		}
	}
}
