package statusindex_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// index returns an index with a generation.
func index(i int, validAfter time.Time) *record.StatusIndex {
	return &record.StatusIndex{Index: i, ValidAfter: validAfter}
}

// held returns the record of an index. retiredAt is zero if it is not retired.
func held(i int, serial int64, validAfter, retiredAt time.Time) record.Index {
	return record.Index{StatusIndex: *index(i, validAfter), Serial: serial, RetiredAt: retiredAt}
}

func TestMake(t *testing.T) {
	never, revoked, later := time.Time{}, now.Add(-time.Minute), now.Add(time.Minute)
	retired := func(n int) (all []record.Index) {
		for i := range n {
			all = append(all, held(100+i, 1, never, now))
		}
		return all
	}
	tests := map[string]struct {
		facts     statusindex.Facts
		want      statusindex.Plan
		wantsFree bool
	}{
		"a new client gets the free index": {
			facts:     statusindex.Facts{Free: 7},
			want:      statusindex.Plan{Current: index(7, never), Serial: 1, Create: &record.Index{StatusIndex: *index(7, never), Serial: 1}},
			wantsFree: true,
		},
		"a new client gets an index for its generation": {
			facts:     statusindex.Facts{Free: 7, ValidAfter: revoked},
			want:      statusindex.Plan{Current: index(7, revoked), Serial: 1, Create: &record.Index{StatusIndex: *index(7, revoked), Serial: 1}},
			wantsFree: true,
		},
		"a client keeps its index": {
			facts: statusindex.Facts{Current: index(3, never), Serial: 2, Held: []record.Index{held(3, 2, never, never)}, Free: 7},
			want:  statusindex.Plan{Current: index(3, never), Serial: 2},
		},
		"a revocation gives a client another index": {
			facts:     statusindex.Facts{Current: index(3, never), Serial: 2, Held: []record.Index{held(3, 2, never, never)}, ValidAfter: revoked, Free: 7},
			want:      statusindex.Plan{Current: index(7, revoked), Serial: 3, Create: &record.Index{StatusIndex: *index(7, revoked), Serial: 3}},
			wantsFree: true,
		},
		"a revocation in the same second as the request gives a client another index": {
			facts:     statusindex.Facts{Current: index(3, never), Serial: 2, Held: []record.Index{held(3, 2, never, never)}, ValidAfter: now, Free: 7},
			want:      statusindex.Plan{Current: index(7, now), Serial: 3, Create: &record.Index{StatusIndex: *index(7, now), Serial: 3}},
			wantsFree: true,
		},
		"a client gets another index before a revocation in the future": {
			facts:     statusindex.Facts{Current: index(3, revoked), Serial: 2, Held: []record.Index{held(3, 2, revoked, never)}, ValidAfter: later, Free: 7},
			want:      statusindex.Plan{Current: index(7, later), Serial: 3, Create: &record.Index{StatusIndex: *index(7, later), Serial: 3}},
			wantsFree: true,
		},
		"a new client with a revocation in the future has one index before and after": {
			facts: statusindex.Facts{Current: index(7, later), Serial: 1, Held: []record.Index{held(7, 1, later, never)}, ValidAfter: later},
			want:  statusindex.Plan{Current: index(7, later), Serial: 1},
		},
		"a revocation that is taken back leaves a client its index": {
			facts: statusindex.Facts{Current: index(3, later), Serial: 2, Held: []record.Index{held(3, 2, later, never)}, ValidAfter: revoked, Free: 7},
			want:  statusindex.Plan{Current: index(3, revoked), Serial: 2},
		},
		"a revocation after that gives a client another index": {
			facts:     statusindex.Facts{Current: index(3, revoked), Serial: 2, Held: []record.Index{held(3, 2, later, never)}, ValidAfter: now, Free: 7},
			want:      statusindex.Plan{Current: index(7, now), Serial: 3, Create: &record.Index{StatusIndex: *index(7, now), Serial: 3}},
			wantsFree: true,
		},
		"a suspended client waits for no index": {
			facts: statusindex.Facts{Current: index(3, never), Serial: 2, Held: []record.Index{held(3, 2, never, never)}, ValidAfter: now, Suspended: true, Free: statusindex.None},
			want:  statusindex.Plan{Current: index(3, never), Serial: 2},
		},
		"a suspended client has no index of another client": {
			facts: statusindex.Facts{Current: index(3, never), Serial: 2, CurrentLost: true, Suspended: true, Free: statusindex.None},
			want:  statusindex.Plan{Serial: 2},
		},
		"an index that was created before a crash is used": {
			facts: statusindex.Facts{Current: index(3, never), Serial: 2, ValidAfter: revoked, Free: 7, Held: []record.Index{
				held(3, 2, never, never), held(4, 3, revoked, never), held(5, 4, revoked, never),
			}},
			want: statusindex.Plan{Current: index(5, revoked), Serial: 4},
		},
		"an index that was created for another generation is not used": {
			facts:     statusindex.Facts{Current: index(3, never), Serial: 2, ValidAfter: now, Free: 7, Held: []record.Index{held(3, 2, never, never), held(4, 3, revoked, never)}},
			want:      statusindex.Plan{Current: index(7, now), Serial: 4, Create: &record.Index{StatusIndex: *index(7, now), Serial: 4}},
			wantsFree: true,
		},
		"an index that is retired is not used": {
			facts:     statusindex.Facts{Serial: 2, Free: 7, Held: []record.Index{held(4, 3, never, now)}},
			want:      statusindex.Plan{Current: index(7, never), Serial: 4, Create: &record.Index{StatusIndex: *index(7, never), Serial: 4}},
			wantsFree: true,
		},
		"an index that the client had before is not used": {
			facts:     statusindex.Facts{Serial: 2, Free: 7, Held: []record.Index{held(4, 2, never, never)}},
			want:      statusindex.Plan{Current: index(7, never), Serial: 3, Create: &record.Index{StatusIndex: *index(7, never), Serial: 3}},
			wantsFree: true,
		},
		"a client whose index is free acquires it again": {
			facts: statusindex.Facts{Current: index(3, revoked), Serial: 2, ValidAfter: revoked, Free: statusindex.None},
			want:  statusindex.Plan{Current: index(3, revoked), Serial: 2, Create: &record.Index{StatusIndex: *index(3, revoked), Serial: 2}},
		},
		"a client whose index another one holds gets another one": {
			facts:     statusindex.Facts{Current: index(3, never), Serial: 2, CurrentLost: true, Free: 7},
			want:      statusindex.Plan{Current: index(7, never), Serial: 3, Create: &record.Index{StatusIndex: *index(7, never), Serial: 3}},
			wantsFree: true,
		},
		"a client whose index another one holds loses it even if none is free": {
			facts:     statusindex.Facts{Current: index(3, never), Serial: 2, CurrentLost: true, Free: statusindex.None},
			want:      statusindex.Plan{Serial: 2, Waiting: statusindex.RealmFull},
			wantsFree: true,
		},
		"a client with too many retired indexes waits": {
			facts: statusindex.Facts{
				Current: index(3, never), Serial: 9, ValidAfter: revoked, Free: 7,
				Held: append(retired(statusindex.MaxRetired), held(3, 9, never, never)),
			},
			want:      statusindex.Plan{Current: index(3, never), Serial: 9, Waiting: statusindex.ClientFull},
			wantsFree: true,
		},
		"a client whose record could not be written too often gives up what it acquired": {
			facts: statusindex.Facts{Current: index(3, never), Serial: 9, ValidAfter: now, Free: 7, Held: append(retired(statusindex.MaxRetired-3),
				held(3, 9, never, never), held(4, 10, revoked, never), held(5, 12, revoked, never), held(6, 11, revoked, never),
			)},
			want:      statusindex.Plan{Current: index(3, never), Serial: 12, Waiting: statusindex.ClientFull},
			wantsFree: true,
		},
		"a client with almost too many retired indexes gets one": {
			facts: statusindex.Facts{
				Current: index(3, never), Serial: 9, ValidAfter: revoked, Free: 7,
				Held: append(retired(statusindex.MaxRetired-1), held(3, 9, never, never)),
			},
			want:      statusindex.Plan{Current: index(7, revoked), Serial: 10, Create: &record.Index{StatusIndex: *index(7, revoked), Serial: 10}},
			wantsFree: true,
		},
		"a client with too many retired indexes uses one that it holds": {
			facts: statusindex.Facts{
				Current: index(3, never), Serial: 9, ValidAfter: revoked, NamespaceFull: true, Free: statusindex.None,
				Held: append(retired(statusindex.MaxRetired), held(3, 9, never, never), held(5, 10, revoked, never)),
			},
			want: statusindex.Plan{Current: index(5, revoked), Serial: 10},
		},
		"a client in a namespace with too many retired indexes waits": {
			facts:     statusindex.Facts{NamespaceFull: true, Free: 7},
			want:      statusindex.Plan{Waiting: statusindex.NamespaceFull},
			wantsFree: true,
		},
		"a client in a realm without a free index waits": {
			facts:     statusindex.Facts{Free: statusindex.None},
			want:      statusindex.Plan{Waiting: statusindex.RealmFull},
			wantsFree: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.facts.HasList = true
			testkit.Diff(t, "plan", tt.want, statusindex.Make(tt.facts))
			if got := statusindex.NeedsFree(tt.facts); got != tt.wantsFree {
				t.Errorf("NeedsFree = %t, want %t", got, tt.wantsFree)
			}
			tt.facts.HasList = false
			testkit.Diff(t, "plan without lists", statusindex.Plan{Serial: tt.facts.Serial}, statusindex.Make(tt.facts))
			if statusindex.NeedsFree(tt.facts) {
				t.Error("the client needs a free index without lists")
			}
		})
	}
}

func TestObsolete(t *testing.T) {
	const hold = time.Hour
	never, due, young := time.Time{}, now.Add(-hold), now.Add(-hold+time.Second)
	tests := map[string]struct {
		current                 *record.StatusIndex
		serial                  int64
		held                    []record.Index
		wantRetire, wantRelease []int
		wantNext                time.Time
	}{
		"the current index": {current: index(1, never), serial: 3, held: []record.Index{held(1, 3, never, never)}},
		"earlier indexes are retired": {
			current: index(1, never), serial: 3,
			held: []record.Index{held(1, 3, never, never), held(2, 2, never, never), held(3, 3, never, never)}, wantRetire: []int{2, 3},
		},
		"a later index may become the current one":      {current: index(1, never), serial: 3, held: []record.Index{held(2, 4, never, never)}},
		"all indexes are retired without a current one": {serial: 3, held: []record.Index{held(1, 3, never, never)}, wantRetire: []int{1}},
		"retired indexes are held until the last token has expired": {
			serial: 3, held: []record.Index{held(1, 1, never, due), held(2, 2, never, now), held(3, 3, never, young)},
			wantRelease: []int{1}, wantNext: young.Add(hold),
		},
		"an index that the record may not have yet is held":          {serial: 3, held: []record.Index{held(1, 4, never, never)}},
		"a retired index of a record that was lost is released, too": {held: []record.Index{held(1, 4, never, due), held(2, 5, never, now)}, wantRelease: []int{1}, wantNext: now.Add(hold)},
	}
	indexes := func(all []record.Index) (got []int) {
		for _, i := range all {
			got = append(got, i.Index)
		}
		return got
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			facts := statusindex.Facts{HasList: true, Current: tt.current, Serial: tt.serial, Held: tt.held, Retention: hold}
			retire, release, next := statusindex.Obsolete(facts, now)
			got := []any{indexes(retire), indexes(release), next}
			if diff := cmp.Diff([]any{tt.wantRetire, tt.wantRelease, tt.wantNext}, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("retire, release, next (-want +got):\n%s", diff)
			}
		})
	}
}

// An operator that always stops before it writes the client's record, for example because the API server
// rejects the record, doesn't acquire more indexes than a client can have.
func TestIndexesAreBoundedWithoutRecord(t *testing.T) {
	var abandoned []record.Index
	f := statusindex.Facts{HasList: true, Current: index(0, time.Time{}), Serial: 1}
	for i := range 20 {
		f.Held, f.Free, f.ValidAfter = append([]record.Index{held(0, 1, time.Time{}, time.Time{})}, abandoned...), 1+i, now.Add(time.Duration(i)*time.Second)
		if plan := statusindex.Make(f); plan.Create != nil {
			abandoned = append(abandoned, *plan.Create)
		}
	}
	if len(abandoned) > statusindex.MaxRetired {
		t.Errorf("the client holds %d indexes that its record never had, want at most %d", len(abandoned), statusindex.MaxRetired)
	}
}
