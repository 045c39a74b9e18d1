package record_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
)

func goodIndex() record.Index {
	return record.Index{
		StatusIndex: record.StatusIndex{Index: 4711, ValidAfter: now}, UID: clientUID, Namespace: "apps", Name: "billing",
		RealmUID: realmUID, Serial: 3, RetiredAt: now.Add(time.Hour),
	}
}

func indexSecret(t testing.TB, body record.Index) *corev1.Secret {
	t.Helper()
	return stored(t, testkit.Value(recordsecret.ForIndex(namespace, body))(t))
}

func TestIndexRoundTrip(t *testing.T) {
	secret := indexSecret(t, goodIndex())
	if got := record.KindOf(secret); got != record.KindIndex {
		t.Errorf("the kind is %q", got)
	}
	testkit.Diff(t, "owner", types.NamespacedName{Namespace: "apps", Name: "billing"}, record.OwnerName(secret))
	testkit.Diff(t, "index", goodIndex(), testkit.Value(record.ReadIndex(secret))(t))
	if secret.Name != "index-"+string(realmUID)+"-4711" || secret.Labels[v1beta1.RecordLabel] != v1beta1.RecordIndex {
		t.Errorf("the Secret is %s with labels %v", secret.Name, secret.Labels)
	}
	if problems := validation.IsDNS1123Subdomain(secret.Name); len(problems) > 0 {
		t.Errorf("the name is invalid: %v", problems)
	}
}

func TestReadIndexRejectsInvalidRecord(t *testing.T) {
	tests := map[string]func(*corev1.Secret){
		"no UID":             setBody("uid", ""),
		"no namespace":       setBody("namespace", ""),
		"no name":            setBody("name", ""),
		"no serial":          setBody("serial", 0),
		"another index":      setBody("index", 4712),
		"another realm":      setBody("realmUID", "other"),
		"text as index":      setBody("index", canary),
		"name of a client's": func(s *corev1.Secret) { s.Name = record.ClientRecordName(realmUID, "billing") },
	}
	maps.Copy(tests, invalidRecords)
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			secret := indexSecret(t, goodIndex())
			alter(secret)
			body, err := record.ReadIndex(secret)
			if !errors.Is(err, record.ErrUnreadable) || strings.Contains(err.Error(), canary) {
				t.Errorf("the error is %v", err)
			}
			testkit.Diff(t, "body", record.Index{}, body)
		})
	}
}

func TestReadClientRejectsInvalidStatusIndex(t *testing.T) {
	for name, index := range map[string]int{"negative": -1, "too large": record.MaxIndexes} {
		t.Run(name, func(t *testing.T) {
			body := goodClient(t)
			body.StatusIndex = &record.StatusIndex{Index: index}
			if _, err := record.ReadClient(clientSecret(t, body)); !errors.Is(err, record.ErrUnreadable) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	body := goodClient(t)
	body.StatusIndex, body.IndexSerial = &record.StatusIndex{Index: record.MaxIndexes - 1, ValidAfter: now}, 7
	got := testkit.Value(record.ReadClient(clientSecret(t, body)))(t)
	testkit.Diff(t, "index", body.StatusIndex, got.StatusIndex)
	if got.IndexSerial != 7 {
		t.Errorf("the serial is %d", got.IndexSerial)
	}
}

// endedLists returns lists with the numbers from n to 1.
func endedLists(n int) (all []record.EndedList) {
	for number := int64(n); number > 0; number-- {
		all = append(all, record.EndedList{Number: number, EndsAt: now})
	}
	return all
}

func TestReadRealmStatusLists(t *testing.T) {
	list := func(change func(*record.StatusLists)) *record.StatusLists {
		l := &record.StatusLists{Number: 9, TTLSeconds: 10, ValidAfter: now, EndsAt: now.Add(time.Hour), Ended: []record.EndedList{{8, now}, {7, now}}}
		change(l)
		return l
	}
	tests := map[string]struct {
		lists          *record.StatusLists
		wantUnreadable bool
	}{
		"none":                 {},
		"current and ended":    {lists: list(func(*record.StatusLists) {})},
		"only ended":           {lists: list(func(l *record.StatusLists) { l.Number, l.EndsAt = 0, time.Time{} })},
		"negative number":      {lists: list(func(l *record.StatusLists) { l.Number = -1 }), wantUnreadable: true},
		"no TTL":               {lists: list(func(l *record.StatusLists) { l.TTLSeconds = 0 }), wantUnreadable: true},
		"TTL of two days":      {lists: list(func(l *record.StatusLists) { l.TTLSeconds = 2 * 86400 }), wantUnreadable: true},
		"ended without number": {lists: list(func(l *record.StatusLists) { l.Ended[0].Number = 0 }), wantUnreadable: true},
		"ended is current":     {lists: list(func(l *record.StatusLists) { l.Ended[0].Number = 9 }), wantUnreadable: true},
		"ended is later":       {lists: list(func(l *record.StatusLists) { l.Ended[0].Number = 10 }), wantUnreadable: true},
		"too many ended":       {lists: list(func(l *record.StatusLists) { l.Number, l.Ended = 100, endedLists(record.MaxEndedLists+1) }), wantUnreadable: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			body := goodRealm()
			body.StatusLists = tt.lists
			got, err := record.ReadRealm(realmSecret(t, body))
			if tt.wantUnreadable {
				if !errors.Is(err, record.ErrUnreadable) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			testkit.Do(t, err)
			testkit.Diff(t, "lists", tt.lists, got.StatusLists)
		})
	}
}

func TestStatusListsEnd(t *testing.T) {
	many := endedLists(record.MaxEndedLists)
	next := int64(len(many) + 1)
	tests := map[string]struct{ lists, want *record.StatusLists }{
		"nil": {},
		"no current list": {
			lists: &record.StatusLists{TTLSeconds: 10, Ended: many}, want: &record.StatusLists{TTLSeconds: 10, Ended: many},
		},
		"a current list": {
			lists: &record.StatusLists{Number: 5, TTLSeconds: 10, ValidAfter: now, EndsAt: now},
			want:  &record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{Number: 5}}},
		},
		"too many ended lists": {
			lists: &record.StatusLists{Number: next, TTLSeconds: 10, Ended: many},
			want:  &record.StatusLists{TTLSeconds: 10, Ended: append([]record.EndedList{{Number: next}}, many[:len(many)-1]...)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "lists", tt.want, tt.lists.End())
			if ended := tt.lists.End(); ended.IsIssued() {
				t.Error("new tokens refer to the ended list")
			}
		})
	}
	testkit.Diff(t, "the argument", endedLists(record.MaxEndedLists), many)
}

func TestStatusListsWithEnded(t *testing.T) {
	later := now.Add(time.Hour)
	tests := map[string]struct{ lists, other, want *record.StatusLists }{
		"nil":      {},
		"no lists": {other: &record.StatusLists{TTLSeconds: 10}, want: &record.StatusLists{TTLSeconds: 10}},
		"no other": {lists: &record.StatusLists{TTLSeconds: 10}, want: &record.StatusLists{TTLSeconds: 10}},
		"the latest of both, each once and as long as any of them": {
			lists: &record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{5, now}, {3, now}, {1, now}}},
			other: &record.StatusLists{TTLSeconds: 60, Ended: []record.EndedList{{5, later}, {4, now}, {2, now}}},
			want:  &record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{5, later}, {4, now}, {3, now}, {2, now}, {1, now}}},
		},
		"one that is not counted down yet": {
			lists: &record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{5, now}}}, other: &record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{Number: 5}}},
			want: &record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{Number: 5}}},
		},
		"too many of both": {
			lists: &record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{100, now}}}, other: &record.StatusLists{TTLSeconds: 10, Ended: endedLists(record.MaxEndedLists)},
			want: &record.StatusLists{TTLSeconds: 10, Ended: append([]record.EndedList{{100, now}}, endedLists(record.MaxEndedLists)[:record.MaxEndedLists-1]...)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "lists", tt.want, tt.lists.WithEnded(tt.other))
		})
	}
}

func TestIsIssued(t *testing.T) {
	for name, tt := range map[string]struct {
		lists *record.StatusLists
		want  bool
	}{
		"nil":             {},
		"no current list": {lists: &record.StatusLists{TTLSeconds: 10}},
		"current":         {lists: &record.StatusLists{Number: 1, TTLSeconds: 10}, want: true},
		"disabled":        {lists: &record.StatusLists{Number: 1, TTLSeconds: 10, Ending: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.lists.IsIssued(); got != tt.want {
				t.Errorf("IsIssued = %t, want %t", got, tt.want)
			}
		})
	}
}

// FuzzParseIndexName checks that a name that is accepted is the only one of its index.
func FuzzParseIndexName(f *testing.F) {
	for _, name := range []string{
		"", "index", "index-", "index--1", "-1", "index-a-", "index-a-1048576", "index-a-01", "index-a-+1", "index-a--1", "index-a- 1", "index-a-１",
		"index-a-99999999999999999999", "client-a-1", "INDEX-a-1",
	} {
		if realm, index, err := record.ParseIndexName(name); !errors.Is(err, record.ErrUnreadable) && name != "index-a--1" {
			f.Errorf("%q is index %d of realm %q, error %v", name, index, realm, err)
		}
		f.Add(name)
	}
	for _, index := range []int{0, 1, record.MaxIndexes - 1} {
		name := record.IndexRecordName(realmUID, index)
		realm, got, err := record.ParseIndexName(name)
		if diff := cmp.Diff([]any{realmUID, index, nil}, []any{realm, got, err}); diff != "" {
			f.Errorf("%s (-want +got):\n%s", name, diff)
		}
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		realm, index, err := record.ParseIndexName(name)
		if err != nil {
			if !errors.Is(err, record.ErrUnreadable) || realm != "" || index != 0 {
				t.Errorf("realm %q, index %d, error %v", realm, index, err)
			}
			return
		}
		if realm == "" || index < 0 || index >= record.MaxIndexes || record.IndexRecordName(realm, index) != name {
			t.Errorf("%q is index %d of realm %q", name, index, realm)
		}
	})
}
