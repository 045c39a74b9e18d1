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
	seen.index.HasList, seen.index.Free, seen.searched = true, statusindex.None, true
	seen.index.Retention, seen.retentionKnown = time.Hour, true
}

// holding makes the client hold an index, which its record has.
func holdingIndex(t *testing.T, seen *observed, body record.Index) {
	t.Helper()
	body.UID, body.RealmUID = seen.client.UID, seen.realm.UID
	seen.index.Held = append(seen.index.Held, body)
	put(&seen.records, body.Index, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: record.IndexRecordName(seen.realm.UID, body.Index)}})
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
		"release with a subject": {func(t *testing.T) observed {
			t.Helper()
			seen := reconciled(t, observeFederated([]v1beta1.Identity{exact("github", shop)}))
			seen.recordSecret.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
			held := subjectRecord(t, &seen, onGitHub)
			held.CreationTimestamp = seen.recordSecret.CreationTimestamp
			seen.subjectsOfName = []*corev1.Secret{held}
			releasedAt(now)(&seen)
			return seen
		}, [][]string{{"releasing the client ID", "giving up a subject"}}},
		"revocation of tokens": {func(t *testing.T) observed {
			t.Helper()
			seen := indexed(t)
			seen.client.Spec.TokensValidAfterTime = &metav1.Time{Time: now}
			seen.index.ValidAfter, seen.index.Free = now, 9
			return seen
		}, [][]string{{"acquiring index 9", putsRecord, secret}, {putsRecord, "retiring index 7", secret}}},
		"unreadable record": {func(t *testing.T) observed {
			t.Helper()
			seen := reconciled(t, observe())
			seen.setRecord(ownedBy(&seen, unreadable(seen.recordSecret)))
			return seen
		}, [][]string{nil}},
		"Secret that can't be written": {func(t *testing.T) observed {
			t.Helper()
			seen := reconciled(t, observe())
			seen.credentialsErr, seen.replanned = errUnavailable, true
			return seen
		}, [][]string{{putsRecord}}},
		"Secret that couldn't be written": {func(t *testing.T) observed {
			t.Helper()
			seen := reconciled(t, observe())
			seen.credentialsErr = errUnavailable
			return seen
		}, [][]string{{putsRecord}, {putsRecord}}},
		"moved subject": {func(t *testing.T) observed {
			t.Helper()
			seen := observeFederated([]v1beta1.Identity{exact("gitlab", shop)})
			seen.subjectsOfName = pointers([]corev1.Secret{*subjectRecord(t, &seen, onGitHub)})
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
		"an obsolete index":           {*recordedInCache(t, withObsoleteIndex), lacksRetention},
		"a client ID that it holds":   {*recordedInCache(t, withClientID), 0},
		"the same, with a live Realm": {observe(cached, withClientID, func(s *observed) { s.realmLive = true }), 0},
		"an index and a live record":  {*recordedInCache(t, withLists, func(s *observed) { s.searched, s.recordLive = false, true }), lacksIndex},
		"an index to release":         {*recordedInCache(t, withObsoleteIndex, func(s *observed) { s.index.Held[0].RetiredAt = now.Add(-time.Minute) }), lacksRetention},
		"a clock that is behind":      {*recordedInCache(t, withObsoleteIndex, func(s *observed) { s.index.Held[0].RetiredAt = now.Add(time.Minute) }), lacksRetention},
		"an older Realm":              {*recordedInCache(t, func(s *observed) { s.recorded.Basis.RealmGeneration = 9 }), lacksLive},
		"a Secret without a record":   {observe(cached, func(s *observed) { s.owned = []corev1.Secret{{}} }), lacksLive},
		"a Secret that is missing":    {*recordedInCache(t, func(s *observed) { s.credentials = nil }), lacksLive},
		"another content of it":       {*recordedInCache(t, withOtherContent), lacksRecord},
		"another content, confirmed":  {*recordedInCache(t, withOtherContent, func(s *observed) { s.recordLive = true }), 0},
		"a Secret to delete":          {*recordedInCache(t, func(s *observed) { s.owned = []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "former"}}} }), lacksRecord},
		"another content, suspended":  {*recordedInCache(t, withOtherContent, func(s *observed) { s.client.Spec.Suspend = true }), 0},
		"a promotion":                 {*promoting(t), lacksConfirmation | lacksRecord},
		"a lost record":               {*recordedInCache(t, func(s *observed) { s.setRecord(nil); s.client.Status.ObservedGeneration = 1 }), lacksLive},
		"a subject to give up":        {*recordedInCache(t, func(s *observed) { s.subjectsOfName, s.written = []*corev1.Secret{subjectRecord(t, s, onGitHub)}, true }), lacksLive},
		"no index":                    {*recordedInCache(t, withLists, func(s *observed) { s.recordLive = true }), lacksLive},
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

func withOtherContent(seen *observed) {
	seen.credentials.Data[v1beta1.SecretKeyScope] = []byte("other")
}

func withObsoleteIndex(seen *observed) {
	withLists(seen)
	seen.index.Retention, seen.retentionKnown = 0, false
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

// promoting returns a client whose next secret every token server serves, read from caches.
func promoting(t *testing.T) *observed {
	t.Helper()
	seen := observe(withRotation)
	step(t, &seen, now.Add(-10*time.Hour))
	step(t, &seen, now)
	seen.acknowledged, seen.live = true, false
	return &seen
}

// ownedBy returns a record with the owner of what was observed, which an unreadable one has, too.
func ownedBy(seen *observed, secret *corev1.Secret) *corev1.Secret {
	secret.Annotations = map[string]string{v1beta1.OwnerAnnotation: seen.client.Namespace + "/" + seen.client.Name}
	return secret
}

// A client that gets no index gets no tokens. Only a new one waits without a record, unless it holds too many indexes,
// because its record gives them up.
func TestWaitingForIndex(t *testing.T) {
	abandoned := func(s *observed) {
		for i := range statusindex.MaxRetired {
			s.index.Held = append(s.index.Held, record.Index{StatusIndex: record.StatusIndex{Index: i, ValidAfter: now}, Serial: int64(i + 1)})
		}
	}
	for name, test := range map[string]struct {
		seen       observed
		wantRecord bool
	}{
		"new":          {observe(withLists), false},
		"new and full": {observe(withLists, abandoned), true},
		"recorded":     {reconciled(t, observe()), true},
	} {
		t.Run(name, func(t *testing.T) {
			withLists(&test.seen)
			d := decided(t, &test.seen, now)
			if d.incomplete == nil || (d.desired != nil) != test.wantRecord || d.desired != nil && !d.desired.Disabled {
				t.Errorf("waits for %v, record %+v", d.incomplete, d.desired)
			}
		})
	}
}

// A client that has a secret gets its record back although the CA is missing.
func TestSecretNeedsNoAuthority(t *testing.T) {
	seen := reconciled(t, observe())
	seen.setRecord(nil)
	seen.caBundle, seen.caMissing = nil, true
	if d := decided(t, &seen, now); d.incomplete != nil || d.desired == nil || d.credentials != nil {
		t.Errorf("waits for %v, record %+v, Secret %v", d.incomplete, d.desired, d.credentials)
	}
}

// The record of a rejected client loses the secrets that have expired.
func TestRejectedClientKeepsNoExpiredSecret(t *testing.T) {
	seen, old, _ := replacedSecret(t)
	seen.client.Spec.Scopes = []string{"unknown"}
	if d := decided(t, &seen, old.ExpiresAt); len(d.desired.Secrets) != 1 || !d.desired.Disabled {
		t.Errorf("the record is %+v", d.desired)
	}
}

// While the record can't be read, its provided secret isn't hashed.
func TestUnreadableRecordIsNotHashed(t *testing.T) {
	seen := reconciled(t, observe())
	seen.setRecord(ownedBy(&seen, unreadable(seen.recordSecret)))
	withProvided(0)(&seen)
	seen.provided, seen.unhashed = providedVersionOf(1, password), true
	if d := testkit.Value(decide(&seen, now, rand.Reader))(t); d.blocked == nil || d.waitsForHash || d.lacks != 0 {
		t.Errorf("blocked %v, hash %t, lacks %b", d.blocked, d.waitsForHash, d.lacks)
	}
}

// A client whose client ID another one holds deletes its own Secrets, each once, if the API server confirms the
// conflict.
func TestConflictDeletesOwnSecrets(t *testing.T) {
	conflict := func(s *observed) { s.holder.Namespace, s.holder.Name = "other", "thief" }
	owned := func(s *observed) {
		s.credentials = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "billing", UID: "s1", Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated},
			OwnerReferences: []metav1.OwnerReference{{UID: s.client.UID, Controller: new(true)}},
		}}
		s.owned = []corev1.Secret{*s.credentials, {ObjectMeta: metav1.ObjectMeta{Name: "former", UID: "s2"}}}
	}
	for name, test := range map[string]struct {
		seen      observed
		wantLacks lacks
		want      int
	}{
		"live":             {observe(conflict, owned), 0, 2},
		"cached":           {observe(conflict, owned, func(s *observed) { s.live = false }), lacksLive, 2},
		"cached, no owned": {observe(conflict, func(s *observed) { s.live = false }), 0, 0},
		"not in the cache": {observe(conflict, owned, func(s *observed) { s.owned = nil }), 0, 1},
		"of another owner": {observe(conflict, owned, func(s *observed) { s.credentials.OwnerReferences, s.owned = nil, nil }), 0, 0},
		"another reason":   {observe(owned, func(s *observed) { s.client.Spec.Scopes = []string{"unknown"} }), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.Value(decide(&test.seen, now, rand.Reader))(t)
			if d.lacks != test.wantLacks || len(d.obsolete) != test.want {
				t.Errorf("lacks %b, deletes %d Secrets: %s", d.lacks, len(d.obsolete), d.accepted.Reason)
			}
		})
	}
}

// A Secret with a secret that stays valid for the overlap isn't deleted before that.
func TestSecretIsKeptForOverlap(t *testing.T) {
	seen := reconciled(t, observe())
	seen.owned = []corev1.Secret{*seen.credentials}
	withProvided(time.Hour)(&seen)
	seen.provided = providedVersionOf(1, password)
	for _, want := range []int{0, 1} {
		hashProvided(t, &seen)
		d := decided(t, &seen, now.Add(time.Duration(want)*time.Hour))
		if len(d.obsolete) != want {
			t.Errorf("%d Secrets are deleted, want %d", len(d.obsolete), want)
		}
		seen = afterWrite(t, seen, d)
	}
}

// What the API server said about the version before the writes doesn't count for the next step.
func TestNextStep(t *testing.T) {
	seen := observed{holding: holding{recordLive: true, confirmed: true, unconfirmed: true}, delivery: delivery{credentialsErr: errUnavailable}}
	seen.nextStep()
	if seen.recordLive || seen.confirmed || seen.unconfirmed || !seen.replanned {
		t.Errorf("the next step is decided with %+v", seen.holding)
	}
}

// Anyone can create a namespace that a client ID resembles. It must not stop the client that holds the ID.
func TestHolderIgnoresResembledNamespace(t *testing.T) {
	seen := reconciled(t, observe(withClientID))
	for _, own := range []bool{true, false} {
		seen.otherNamespace = "acme"
		if !own {
			seen.client.UID = "c2"
		}
		if seen.setRecord(seen.recordSecret); (seen.otherNamespace == "") != own {
			t.Errorf("own %t: the client ID resembles that of namespace %q", own, seen.otherNamespace)
		}
	}
}
