package apiclient

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
)

// withLists enables status lists.
func withLists(seen *observed) {
	seen.realm.Spec.StatusList.Enabled = true
	seen.index.Served, seen.index.Free, seen.searched = true, statusindex.None, true
	seen.index.Hold, seen.holdKnown = time.Hour, true
}

// holding makes the client hold an index, which its record has.
func holdingIndex(t *testing.T, seen *observed, body record.Index) {
	t.Helper()
	body.UID, body.RealmUID = seen.client.UID, seen.realm.UID
	seen.index.Held = append(seen.index.Held, body)
	put(&seen.records, body.Index, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: record.IndexSecretName(seen.realm.UID, body.Index)}})
}

// Each write waits for those before it, so their order is the protocol of docs/architecture.md: a value is in the
// credentials Secret before its verifier is in the record, what the record refers to is acquired before it and given
// up after it, and a restriction waits for nothing.
func TestOrderOfWrites(t *testing.T) {
	const putsRecord, secret = "writing the record", "writing the credentials Secret"
	indexed := func(t *testing.T) observed {
		t.Helper()
		seen := observe(withLists, func(s *observed) { s.index.Free = 7 })
		seen = reconciled(t, seen)
		seen.index.Current, seen.index.Serial = seen.recorded.StatusIndex, seen.recorded.IndexSerial
		holdingIndex(t, &seen, record.Index{StatusIndex: *seen.recorded.StatusIndex, Serial: 1})
		return seen
	}
	for name, test := range map[string]struct {
		start func(*testing.T) observed
		want  [][]string // by step
	}{
		"new client": {func(*testing.T) observed { return observe() }, [][]string{{secret}, {putsRecord, secret}}},
		"new client with a subject and an index": {func(*testing.T) observed {
			return observeFederated([]v1beta1.Identity{exact("github", shop)}, withLists, func(s *observed) { s.index.Free = 7 })
		}, [][]string{{`acquiring subject "` + shop + `"`, "acquiring index 7", putsRecord}}},
		"unchanged": {func(t *testing.T) observed { t.Helper(); return reconciled(t, observe()) }, [][]string{{putsRecord, secret}}},
		"suspension": {func(t *testing.T) observed {
			t.Helper()
			seen := reconciled(t, observe())
			seen.client.Spec.Suspend = true
			return seen
		}, [][]string{{putsRecord, secret}}},
		"rotation": {func(t *testing.T) observed {
			t.Helper()
			seen := observe(withRotation)
			step(t, &seen, now.Add(-10*time.Hour))
			seen.acknowledged = true
			return seen
		}, [][]string{{putsRecord, secret}, {putsRecord, secret}}},
		"promotion": {func(t *testing.T) observed {
			t.Helper()
			seen := observe(withRotation)
			step(t, &seen, now.Add(-10*time.Hour))
			step(t, &seen, now)
			seen.acknowledged = true
			return seen
		}, [][]string{{putsRecord, secret}, {putsRecord, secret}}},
		"revocation": {func(t *testing.T) observed {
			t.Helper()
			seen := indexed(t)
			seen.credentials = nil
			seen.client.Spec.TokensValidAfterTime = &metav1.Time{Time: now}
			seen.index.ValidAfter, seen.index.Free = now, 9
			return seen
		}, [][]string{{"acquiring index 9", putsRecord}, {putsRecord, "retiring index 7", secret}, {putsRecord, secret}}},
		"release": {func(t *testing.T) observed {
			t.Helper()
			seen := reconciled(t, observe())
			seen.recordSecret.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
			releasedAt(now)(&seen)
			return seen
		}, [][]string{{"releasing the client ID"}}},
		"moved subject": {func(t *testing.T) observed {
			t.Helper()
			seen := observeFederated([]v1beta1.Identity{exact("gitlab", shop)})
			seen.ownSubjects = pointers([]corev1.Secret{*subjectRecord(t, &seen, onGitHub)})
			return seen
		}, [][]string{{`acquiring subject "` + shop + `"`, putsRecord, "giving up a subject"}}},
		"secret of another kind": {func(t *testing.T) observed {
			t.Helper()
			seen := reconciled(t, observe())
			seen.credentials.Name, seen.credentials.OwnerReferences[0].UID = "billing", seen.client.UID
			seen.owned = []corev1.Secret{*seen.credentials}
			withKeys(onP256)(&seen)
			seen.client.Spec.Secret = nil
			return seen
		}, [][]string{{putsRecord, "deleting the obsolete credentials Secret billing"}}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := test.start(t)
			var got [][]string
			for range maxRounds {
				d := testkit.Value(decide(&seen, now, rand.Reader))(t)
				if d.lacks != 0 {
					fetched(t, &seen, d.lacks)
					continue
				}
				var texts []string
				for _, w := range d.writes {
					texts = append(texts, w.String())
					stored(t, &seen, w)
				}
				got = append(got, texts)
				if !d.continues(&seen) {
					break
				}
				seen.nextStep()
			}
			testkit.Diff(t, "writes", test.want, got)
		})
	}
}

// stored changes the observed state as write does.
func stored(t *testing.T, seen *observed, w write) {
	t.Helper()
	switch w := w.(type) {
	case holdIndex:
		holdingIndex(t, seen, w.body)
	case retireIndex:
		seen.index.Held = slices.DeleteFunc(seen.index.Held, func(h record.Index) bool { return h.Index == w.body.Index })
		body := w.body
		body.RetiredAt = now
		holdingIndex(t, seen, body)
	case putRecord:
		*seen = afterWrite(t, *seen, decision{desired: w.body})
		seen.index.Current, seen.index.Serial = w.body.StatusIndex, w.body.IndexSerial
		seen.acknowledged = true
	case putCredentials:
		*seen = afterWrite(t, *seen, decision{credentials: w.desired})
	}
}

// What a decision lacks is fetched before anything is written, and only what the spec makes necessary.
func TestLacks(t *testing.T) {
	cached := func(s *observed) { s.live = false }
	for name, test := range map[string]struct {
		seen observed
		want lacks
	}{
		"new client":                  {observe(cached), 0},
		"a client ID of its own":      {observe(cached, withClientID), lacksRealm},
		"the same, not granted":       {observe(cached, withClientID, func(s *observed) { s.realm.Spec.Grants[0].ClientIDs = nil }), 0},
		"the same, live":              {observe(withClientID), 0},
		"a subject":                   {observeFederated([]v1beta1.Identity{exact("github", shop)}, cached), lacksSubjects | lacksRealm},
		"an index":                    {observe(cached, withLists, func(s *observed) { s.searched = false }), lacksIndex},
		"an index and a record":       {*recordedInCache(t, withLists, func(s *observed) { s.searched = false }), lacksIndex | lacksRecord},
		"an obsolete index":           {*recordedInCache(t, withObsoleteIndex), lacksHold},
		"a lost record":               {*recordedInCache(t, func(s *observed) { s.setRecord(nil); s.client.Status.ObservedGeneration = 1 }), lacksLive},
		"a subject to give up":        {*recordedInCache(t, func(s *observed) { s.ownSubjects, s.written = []*corev1.Secret{subjectRecord(t, s, onGitHub)}, true }), lacksLive},
		"a record of a namesake":      {observe(cached, func(s *observed) { s.holder = client.ObjectKeyFromObject(s.client) }), lacksLive},
		"a provided secret":           {observe(cached, withProvided(0), func(s *observed) { s.provided, s.unhashed = providedVersionOf(1, password), true }), lacksHash},
		"nothing of a reconciled one": {*recordedInCache(t), 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.Value(decide(&test.seen, now, rand.Reader))(t)
			if d.lacks != test.want || test.want != 0 && len(d.writes) > 0 {
				t.Errorf("lacks %09b, want %09b; %d writes", d.lacks, test.want, len(d.writes))
			}
		})
	}
}

func withClientID(seen *observed) {
	seen.client.Spec.ClientID = "acme-billing"
	seen.realm.Spec.Grants[0].ClientIDs = []string{"acme-*"}
}

func withObsoleteIndex(seen *observed) {
	withLists(seen)
	seen.holdKnown = false
	seen.index.Current, seen.index.Serial = &record.StatusIndex{Index: 3}, 2
	seen.index.Held = []record.Index{{StatusIndex: record.StatusIndex{Index: 2}, Serial: 1}, {StatusIndex: record.StatusIndex{Index: 3}, Serial: 2}}
}

// recordedInCache returns a client that was reconciled, read from caches.
func recordedInCache(t *testing.T, change ...func(*observed)) *observed {
	t.Helper()
	seen := reconciled(t, observe())
	seen.live = false
	for _, f := range change {
		f(&seen)
	}
	return &seen
}
