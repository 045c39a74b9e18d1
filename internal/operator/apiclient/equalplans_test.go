package apiclient

import (
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// pool has secrets with their verifiers, generated ones first.
type pool struct {
	plaintexts []string
	hashes     []clientsecret.Verifier
	generated  int
}

func newPool(t *testing.T) pool {
	t.Helper()
	p := pool{generated: 5}
	for range p.generated {
		plaintext, err := clientsecret.Generate(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		p.add(t, plaintext, clientsecret.Hash)
	}
	p.add(t, "a password of theirs", clientsecret.HashSlowly)
	p.add(t, "another password of theirs", clientsecret.HashSlowly)
	return p
}

func (p *pool) add(t *testing.T, plaintext string, hash func(string, io.Reader) (clientsecret.Verifier, error)) {
	t.Helper()
	verifier, err := hash(plaintext, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.plaintexts, p.hashes = append(p.plaintexts, plaintext), append(p.hashes, verifier)
}

// stream returns equal random bytes for equal seeds, and an error after limit bytes.
func stream(seed uint64, limit int64) io.Reader {
	return io.LimitReader(mathrand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}), limit)
}

func drawTime(t *rapid.T, label string) time.Time {
	return now.Add(time.Duration(rapid.IntRange(-4, 4).Draw(t, label+" hours"))*time.Hour +
		time.Duration(rapid.SampledFrom([]int{0, 0, 1, 1500}).Draw(t, label+" milliseconds"))*time.Millisecond)
}

// drawDuration returns nil for none.
func drawDuration(t *rapid.T, label string, from int) *metav1.Duration {
	if rapid.Bool().Draw(t, label+" set") {
		return &metav1.Duration{Duration: time.Duration(rapid.IntRange(from, 10).Draw(t, label))*time.Hour + time.Duration(rapid.IntRange(0, 2).Draw(t, label+" ms"))*time.Millisecond}
	}
	return nil
}

func (p *pool) drawKind(t *rapid.T, seen *observed) {
	spec := &seen.client.Spec
	spec.Secret, spec.PublicKeys = nil, nil
	switch rapid.SampledFrom([]string{"default", "generated", "generated", "provided", "provided", "hashed", "none"}).Draw(t, "kind") {
	case "generated":
		g := &v1alpha1.GeneratedSecret{Rotation: v1alpha1.SecretRotation{Interval: drawDuration(t, "interval", 1), Overlap: drawDuration(t, "overlap", 0)}}
		if rapid.Bool().Draw(t, "rotateAfter") {
			g.Rotation.RotateAfter = &metav1.Time{Time: drawTime(t, "rotateAfter")}
		}
		spec.Secret = &v1alpha1.ClientSecretSource{Generated: g}
	case "provided":
		spec.Secret = &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{
			SecretRef: v1alpha1.SecretKeyReference{Name: "vault"}, Overlap: drawDuration(t, "overlap", 0),
		}}
		p.drawProvided(t, seen)
	case "hashed":
		spec.Secret = &v1alpha1.ClientSecretSource{}
		for i, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(p.hashes)-1), 1, 3, rapid.ID[int]).Draw(t, "hashes") {
			h := v1alpha1.HashedSecret{ID: fmt.Sprint("h", n), Hash: p.hashes[n].String()}
			if rapid.Bool().Draw(t, "expires") {
				h.ExpiresAt = &metav1.Time{Time: drawTime(t, fmt.Sprint("end ", i))}
			}
			spec.Secret.Hashed = append(spec.Secret.Hashed, h)
		}
	case "none":
		spec.PublicKeys = []v1alpha1.PublicKey{onP256}
	}
}

func (p *pool) drawProvided(t *rapid.T, seen *observed) {
	// Passwords are rare: each costs a slow hash.
	value := p.plaintexts[rapid.SampledFrom([]int{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6}).Draw(t, "value")]
	seen.provided = vault(rapid.IntRange(1, 4).Draw(t, "version"), value)
}

func (p *pool) drawRecorded(t *rapid.T) []record.ClientSecret {
	var recorded []record.ClientSecret
	for range rapid.IntRange(0, 4).Draw(t, "secrets") {
		n := rapid.SampledFrom([]int{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6}).Draw(t, "secret")
		s := record.ClientSecret{
			ID: fmt.Sprint("h", n), CreatedAt: drawTime(t, "created").Truncate(time.Second), Hash: p.hashes[n].String(),
			Source:    rapid.SampledFrom([]string{"", "", "", "spec", "v1/1", "v1/2"}).Draw(t, "source"),
			Successor: rapid.Bool().Draw(t, "successor"),
		}
		if rapid.Bool().Draw(t, "expires") {
			s.ExpiresAt = drawTime(t, "end")
		}
		recorded = append(recorded, s)
	}
	return recorded
}

// drawCredentials returns the Secret of the credentials Secret's name, whoever owns it; nil for none.
func (p *pool) drawCredentials(t *rapid.T, c *v1alpha1.ApiClient, label string) *corev1.Secret {
	if rapid.IntRange(0, 3).Draw(t, label+" is missing") == 0 {
		return nil
	}
	controller := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: label, Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretGenerated}},
		Data:       map[string][]byte{"other": []byte("value")},
	}
	if rapid.IntRange(0, 5).Draw(t, label+" of another owner") > 0 {
		secret.OwnerReferences = []metav1.OwnerReference{{UID: c.UID, Controller: &controller, Kind: kind}}
	}
	for i, n := range rapid.SliceOfN(rapid.IntRange(0, len(p.plaintexts)-1), 0, 3).Draw(t, label+" has") {
		secret.Data[strconv.Itoa(i)] = []byte(p.plaintexts[n])
	}
	return secret
}

// requireEqual checks that the new planner decides like the former code, and returns the plan.
func requireEqual(t *rapid.T, seen observed, at time.Time, limit int64) plan {
	seed, in := rapid.Uint64().Draw(t, "seed"), instance()
	in.Testing.SpeedUp = rapid.SampledFrom([]int32{0, 1, 60}).Draw(t, "speed up")
	want, wantErr := planSecrets(&seen, in, at, stream(seed, limit))
	made, err := secrets.Make(secretFacts(&seen), wantedSecret(&seen, in), at, stream(seed, limit))
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if err != nil {
		return want
	}
	got := plan{secrets: made.Secrets, plaintext: made.Deliver, inUse: made.Continuous, unclaimed: made.Pending, nextRotation: made.Next}
	got.rotation = map[secrets.Step]rotationStep{
		"": rotationNone, secrets.StepBegun: rotationBegun, secrets.StepLost: rotationForgotten, secrets.StepCompleted: rotationCompleted,
	}[made.Step]
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(plan{})); diff != "" {
		t.Fatalf("plan (-former +new):\n%s", diff)
	}
	if diff := cmp.Diff(valid(seen.secrets(), at), secrets.Look(secretFacts(&seen), at).Valid); diff != "" {
		t.Fatalf("valid (-former +new):\n%s", diff)
	}
	// The cache is asked about before anything expires.
	if got, want := secrets.Look(secretFacts(&seen), time.Time{}).Conclusive(), newestHandedOut(&seen); got != want {
		t.Fatalf("conclusive %t, want %t", got, want)
	}
	if got, want := mayHashSlowly(&seen), hashesSlowly(&seen); got != want {
		t.Fatalf("hashes slowly: %t, want %t", got, want)
	}
	if diff := cmp.Diff(needless(&seen, want), obsolete(&seen, made)); diff != "" {
		t.Fatalf("obsolete (-former +new):\n%s", diff)
	}
	return want
}

// Whatever was read, the new planner and the former code make the same plan.
func TestPlansAreEqual(t *testing.T) {
	p := newPool(t)
	rapid.Check(t, func(t *rapid.T) {
		seen := seenAt()
		p.drawKind(t, &seen)
		seen.current = record.Client{RealmUID: rapid.SampledFrom([]types.UID{"r1", "r1", "r1", "r1", "r0"}).Draw(t, "realm"), Secrets: p.drawRecorded(t)}
		seen.consumer = p.drawCredentials(t, seen.client, "billing")
		for i := range rapid.IntRange(0, 2).Draw(t, "owned") {
			if s := p.drawCredentials(t, seen.client, []string{"billing", "other"}[i]); s != nil && ours(s, seen.client) {
				seen.owned = append(seen.owned, *s)
			}
		}
		if n := rapid.IntRange(-1, p.generated-1).Draw(t, "pending"); n >= 0 {
			seen.unclaimed = p.plaintexts[n]
		}
		seen.state = rapid.SampledFrom([]acknowledgement.State{acknowledgement.Acknowledged, acknowledgement.Waiting, acknowledgement.NoServer}).Draw(t, "state")
		requireEqual(t, seen, drawTime(t, "now"), int64(rapid.SampledFrom([]int{1000, 1000, 1000, 40, 0}).Draw(t, "random bytes")))
	})
}

// The plans are the same along a client's whole life, through changes of kind, losses and repairs.
func TestPlansAreEqualAlongTraces(t *testing.T) {
	p := newPool(t)
	rapid.Check(t, func(t *rapid.T) {
		seen, at := seenAt(), now
		controller := true
		var before *corev1.Secret // an older credentials Secret, as a backup has it
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"time", "long", "acknowledge", "acknowledge", "acknowledge", "acknowledge", "kill", "delete", "restore", "overwrite", "kind", "rotate", "value", "realm", "nothing"}).Draw(t, "event") {
			case "time":
				at = at.Add(time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds")) * time.Second)
			case "long":
				at = at.Add(time.Duration(rapid.IntRange(1, 24).Draw(t, "hours")) * time.Hour)
			case "acknowledge":
				seen.state = acknowledgement.Acknowledged
			case "kill":
				seen.unclaimed = ""
			case "delete":
				seen.consumer = nil
			case "restore":
				seen.consumer = before.DeepCopy()
			case "overwrite":
				seen.consumer = p.drawCredentials(t, seen.client, "billing")
			case "kind":
				p.drawKind(t, &seen)
			case "rotate":
				if spec := seen.client.Spec.Secret; spec != nil && spec.Generated != nil {
					spec.Generated.Rotation.RotateAfter = &metav1.Time{Time: at}
				}
			case "value":
				if secretSource(seen.client).Provided != nil {
					p.drawProvided(t, &seen)
				}
			case "realm":
				if rapid.IntRange(0, 5).Draw(t, "recreated") == 0 {
					seen.realm.UID += "'"
				}
			}
			seen.owned = nil
			if seen.consumer != nil && ours(seen.consumer, seen.client) {
				seen.owned = []corev1.Secret{*seen.consumer}
			}
			made := requireEqual(t, seen, at, 1000)
			recorded := record.Client{RealmUID: seen.realm.UID, Secrets: made.secrets}
			if !record.Equal(seen.current, recorded) {
				seen.state = acknowledgement.Waiting
			}
			seen.current, seen.unclaimed = recorded, made.unclaimed
			if made.plaintext != "" && rapid.IntRange(0, 5).Draw(t, "write fails") > 0 {
				if seen.consumer != nil && rapid.Bool().Draw(t, "back up") {
					before = seen.consumer
				}
				seen.consumer = &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{
						Name: "billing", Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretGenerated},
						OwnerReferences: []metav1.OwnerReference{{UID: seen.client.UID, Controller: &controller, Kind: kind}},
					},
					Data: map[string][]byte{"client_secret": []byte(made.plaintext)},
				}
				if made.plaintext == made.unclaimed {
					seen.unclaimed = ""
				}
			}
			if len(needless(&seen, made)) > 0 {
				seen.consumer = nil
			}
		}
	})
}
