package apiclient

import (
	"crypto/rand"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

const (
	password = "correct horse battery staple"
	changed  = "Tr0ub4dor&3 and some more"
)

// provided has the secret come from the Secret "vault", with an overlap.
func provided(overlap time.Duration) func(*observed) {
	return func(seen *observed) {
		seen.client.Spec.Secret = &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{
			SecretRef: v1alpha1.SecretKeyReference{Name: "vault"}, Overlap: &metav1.Duration{Duration: overlap},
		}}
	}
}

// hashed has the secret come from hashes in the spec.
func hashed(hashes ...v1alpha1.HashedSecret) func(*observed) {
	return func(seen *observed) { seen.client.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: hashes} }
}

func generated(seen *observed) { seen.client.Spec.Secret = nil; rotating(seen) }

// vault returns the Secret "vault" in a version, with a value.
func vault(version int, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "vault", UID: "v1", ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided},
		},
		Data: map[string][]byte{"client_secret": []byte(value)},
	}
}

func hashOf(t *testing.T, id, secret string) v1alpha1.HashedSecret {
	t.Helper()
	verifier, err := clientsecret.Hash(secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.HashedSecret{ID: id, Hash: verifier.String()}
}

// accepts checks which secrets the token servers accept at a time.
func accepts(t *testing.T, seen *observed, at time.Time, want map[string]bool) {
	t.Helper()
	current := stillValid(seen.current.Secrets, at)
	if len(current) > 2 {
		t.Errorf("there are %d secrets", len(current))
	}
	for secret, accepted := range want {
		if got := !seen.current.Disabled && verifiesAny(current, secret); got != accepted {
			t.Errorf("%q is accepted: %t, want %t", secret, got, accepted)
		}
	}
}

func TestProvidedSecret(t *testing.T) {
	seen := seenAt(provided(0))
	seen.provided = vault(1, password)
	d := look(t, &seen, now)
	accepts(t, &seen, now, map[string]bool{password: true, changed: false})
	if d.credentials != nil || !strings.HasPrefix(d.record.Secrets[0].Hash, "$argon2id$") {
		t.Errorf("consumer Secret %v, record %+v", d.credentials, d.record)
	}
	first := seen.current.Secrets

	look(t, &seen, now.Add(time.Hour))
	if diff := cmp.Diff(first, seen.current.Secrets); diff != "" {
		t.Errorf("the same version again (-before +after):\n%s", diff)
	}
	seen.provided = vault(2, password)
	d = look(t, &seen, now.Add(time.Hour))
	if got := seen.current.Secrets; len(got) != 1 || got[0].Hash != first[0].Hash || got[0].Source == first[0].Source || !d.secretsOnly {
		t.Errorf("another version of the same value makes %+v of %+v", got, first)
	}
	seen.provided = vault(3, changed)
	look(t, &seen, now.Add(time.Hour))
	accepts(t, &seen, now.Add(time.Hour), map[string]bool{password: false, changed: true})

	// A secret that a machine made needs no slow hash.
	machine, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	seen.provided = vault(4, machine)
	d = look(t, &seen, now.Add(time.Hour))
	accepts(t, &seen, now.Add(time.Hour), map[string]bool{changed: false, machine: true})
	if !strings.HasPrefix(d.record.Secrets[0].Hash, "$hmac-sha256$") {
		t.Errorf("its hash is %s", d.record.Secrets[0].Hash)
	}
}

// With an overlap the last old value stays valid for it; of two changes within it the older one ends.
func TestProvidedSecretOverlaps(t *testing.T) {
	seen := seenAt(provided(time.Hour))
	for version, value := range []string{password, changed, "a third secret of theirs"} {
		seen.provided = vault(version, value)
		look(t, &seen, now)
	}
	accepts(t, &seen, now, map[string]bool{password: false, changed: true, "a third secret of theirs": true})
	ends := seen.current.Secrets[0].ExpiresAt
	if want := now.Add(time.Hour); !ends.Equal(want) {
		t.Errorf("the old value ends at %s, want %s", ends, want)
	}
	look(t, &seen, ends)
	accepts(t, &seen, ends, map[string]bool{changed: false, "a third secret of theirs": true})

	seen.provided = vault(9, changed)
	look(t, &seen, ends)
	accepts(t, &seen, ends, map[string]bool{changed: true, "a third secret of theirs": true})
}

func TestHashedSecrets(t *testing.T) {
	a, b := hashOf(t, "a", "secret-a"), hashOf(t, "b", "secret-b")
	a.ExpiresAt = &metav1.Time{Time: now.Add(2 * time.Hour)}
	seen := seenAt(hashed(a))
	d := look(t, &seen, now)
	want := []record.ClientSecret{{ID: "a", CreatedAt: now, ExpiresAt: now.Add(2 * time.Hour), Hash: a.Hash, Source: "spec"}}
	if diff := cmp.Diff(want, d.record.Secrets); diff != "" || d.credentials != nil {
		t.Errorf("consumer Secret %v, secrets (-want +got):\n%s", d.credentials, diff)
	}
	hashed(a, b)(&seen)
	look(t, &seen, now.Add(time.Hour))
	if got := seen.current.Secrets; len(got) != 2 || !got[0].CreatedAt.Equal(now) || !got[1].CreatedAt.Equal(now.Add(time.Hour)) {
		t.Errorf("a second hash: %+v", got)
	}
	accepts(t, &seen, now.Add(time.Hour), map[string]bool{"secret-a": true, "secret-b": true})
	if next := requeueAfter(seen.client, look(t, &seen, now.Add(time.Hour)), now.Add(time.Hour)); next != time.Hour {
		t.Errorf("the next look is in %s, want that at the end of the first", next)
	}
	look(t, &seen, now.Add(2*time.Hour))
	accepts(t, &seen, now.Add(2*time.Hour), map[string]bool{"secret-a": false, "secret-b": true})
	hashed(b)(&seen)
	look(t, &seen, now.Add(2*time.Hour))
	hashed(a)(&seen)
	d = look(t, &seen, now.Add(2*time.Hour))
	accepts(t, &seen, now.Add(2*time.Hour), map[string]bool{"secret-a": false, "secret-b": false})
	state := acknowledgement.Acknowledged
	if s := status(seen, d, applied{recorded: true, state: &state}, instance(), now); len(s.Secrets) != 0 || s.Conditions[len(s.Conditions)-1].Reason != string(v1alpha1.ReasonExpired) && !hasReason(s, v1alpha1.ReasonExpired) {
		t.Errorf("with no hash that is valid: %+v", s)
	}
}

func hasReason(s v1alpha1.ApiClientStatus, reason v1alpha1.ConditionReason) bool {
	for _, c := range s.Conditions {
		if c.Type == string(v1alpha1.ConditionReady) {
			return c.Reason == string(reason)
		}
	}
	return false
}

// What a person provides is refused for one reason that says what to do, and without showing it.
func TestBroughtSecretsRefused(t *testing.T) {
	with := func(value string) func(*observed) {
		return func(s *observed) { provided(0)(s); s.provided = vault(1, value) }
	}
	for name, test := range map[string]struct {
		change func(*observed)
		want   v1alpha1.ConditionReason
	}{
		"provided":                   {with(password), v1alpha1.ReasonAccepted},
		"of 16 characters":           {with("äöüäöüäöüäöüäöüä"), v1alpha1.ReasonAccepted},
		"of 1024 characters":         {with(strings.Repeat("x", 1024)), v1alpha1.ReasonAccepted},
		"of 1025 characters":         {with(strings.Repeat("x", 1025)), v1alpha1.ReasonSecretNotUsable},
		"of 15 characters":           {with("fifteen-letters"), v1alpha1.ReasonSecretTooShort},
		"of 15 longer characters":    {with(strings.Repeat("ä", 15)), v1alpha1.ReasonSecretTooShort},
		"empty":                      {with(""), v1alpha1.ReasonSecretTooShort},
		"with a line break":          {with(password + "\n"), v1alpha1.ReasonSecretNotUsable},
		"with NUL":                   {with(password + "\x00"), v1alpha1.ReasonSecretNotUsable},
		"not UTF-8":                  {with(password + "\xff"), v1alpha1.ReasonSecretNotUsable},
		"not there":                  {provided(0), v1alpha1.ReasonSecretNotFound},
		"without the key":            {func(s *observed) { with(password)(s); delete(s.provided.Data, "client_secret") }, v1alpha1.ReasonSecretNotFound},
		"under another key":          {func(s *observed) { with(password)(s); s.client.Spec.Secret.Provided.SecretRef.Key = "PASSWORD" }, v1alpha1.ReasonSecretNotFound},
		"without the label":          {func(s *observed) { with(password)(s); s.provided.Labels = nil }, v1alpha1.ReasonSecretNotLabelled},
		"labelled as ours":           {func(s *observed) { with(password)(s); s.provided.Labels[v1alpha1.ClientSecretLabel] = "generated" }, v1alpha1.ReasonSecretNotLabelled},
		"a hash":                     {hashed(hashOf(t, "a", password)), v1alpha1.ReasonAccepted},
		"a hash of another scheme":   {hashed(v1alpha1.HashedSecret{ID: "a", Hash: "$2b$12$R9h/cIPz0gi.URNNX3kh2O"}), v1alpha1.ReasonHashNotSupported},
		"a hash that is hostile":     {hashed(v1alpha1.HashedSecret{ID: "a", Hash: "$argon2id$v=19$m=4194304,t=2,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA"}), v1alpha1.ReasonHashNotSupported},
		"a hash that is broken":      {hashed(hashOf(t, "a", password), v1alpha1.HashedSecret{ID: "b", Hash: "$hmac-sha256$" + password}), v1alpha1.ReasonHashNotSupported},
		"another's consumer Secret":  {func(s *observed) { with(password)(s); s.credentials = vault(1, password) }, v1alpha1.ReasonAccepted},
		"generated, provided stands": {func(s *observed) { s.provided = vault(1, "short") }, v1alpha1.ReasonAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			seen := seenAt(test.change)
			got := accepted(seen, instance())
			if got.Reason != test.want {
				t.Errorf("%s: %s, want %s", got.Reason, got.Message, test.want)
			}
			if strings.Contains(got.Message, password) || strings.Contains(got.Message, "fifteen") {
				t.Errorf("the message shows the secret: %s", got.Message)
			}
			d, err := decide(seen, instance(), now, rand.Reader)
			if err != nil || (d.record != nil) != (test.want == v1alpha1.ReasonAccepted) || (d.credentials != nil) != (name == "generated, provided stands") {
				t.Errorf("record %v, consumer Secret %v, error %v", d.record, d.credentials, err)
			}
		})
	}
}

// From each kind of secret to each other: at no moment is the client without a secret that
// is valid, and what was valid before stays so for the overlap.
func TestChangeOfKind(t *testing.T) {
	byHash := hashOf(t, "a", "secret-a")
	kinds := map[string]struct {
		change  func(*observed)
		overlap time.Duration
		secret  func(*observed) string
	}{
		"generated": {generated, time.Hour, plaintext},
		"provided":  {func(s *observed) { provided(30 * time.Minute)(s); s.provided = vault(1, password) }, 30 * time.Minute, func(*observed) string { return password }},
		"hashed":    {hashed(byHash), 0, func(*observed) string { return "secret-a" }},
	}
	for from, before := range kinds {
		for to, after := range kinds {
			if from == to {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				seen := seenAt(before.change)
				seen.state = acknowledgement.Acknowledged
				own := func() {
					seen.owned = nil
					if seen.credentials != nil {
						seen.owned = []corev1.Secret{*seen.credentials}
					}
				}
				look(t, &seen, now)
				old := before.secret(&seen)
				after.change(&seen)
				own()
				at, state := now.Add(time.Minute), acknowledgement.Waiting
				for range 4 { // as many looks as it takes
					seen.state = state
					d := look(t, &seen, at)
					if len(d.obsolete) > 0 {
						seen.credentials = nil
					}
					own()
					if fresh := after.secret(&seen); !verifiesAny(stillValid(seen.current.Secrets, at), old) && !verifiesAny(stillValid(seen.current.Secrets, at), fresh) {
						t.Fatal("no secret is valid")
					}
					state = acknowledgement.Acknowledged
				}
				fresh := after.secret(&seen)
				accepts(t, &seen, at, map[string]bool{old: after.overlap > 0, fresh: true})
				end := at.Add(after.overlap)
				d := look(t, &seen, end)
				if len(d.obsolete) > 0 {
					seen.credentials = nil
				}
				accepts(t, &seen, end, map[string]bool{old: false, fresh: true})
				if (seen.credentials != nil) != (to == "generated") {
					t.Errorf("the consumer Secret is there: %t", seen.credentials != nil)
				}
			})
		}
	}
}
