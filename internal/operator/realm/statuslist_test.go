package realm

import (
	"slices"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

func TestStatusLists(t *testing.T) {
	const lifetime, skew = time.Hour, 5 * time.Minute
	lastExpired := now.Add(lifetime + 2*skew)
	number := now.Unix() // of a list that begins now
	began := now.Add(-24 * time.Hour)
	earlier := record.EndedList{Number: 1000, EndsAt: now.Add(time.Minute)}
	lists := func(change func(*record.StatusLists)) *record.StatusLists {
		l := &record.StatusLists{Number: began.Unix() + 1, TTLSeconds: 10}
		change(l)
		return l
	}
	unchanged := func(*record.StatusLists) {}
	ended := func(all ...record.EndedList) []record.EndedList { return all }
	var many []record.EndedList
	for i := range record.MaxEndedLists {
		many = append(many, record.EndedList{Number: int64(1000 - i), EndsAt: earlier.EndsAt})
	}
	tests := map[string]struct {
		disabled                     bool
		ttl                          time.Duration
		current                      *record.StatusLists
		tokensValidAfter, rolledBack time.Time
		want                         *record.StatusLists
		wantNext                     time.Time
	}{
		"never enabled": {disabled: true},
		"enabled":       {want: &record.StatusLists{Number: number, TTLSeconds: 10}},
		"enabled with another TTL": {
			ttl: time.Minute, want: &record.StatusLists{Number: number, TTLSeconds: 60},
		},
		"enabled after a revocation": {
			tokensValidAfter: began, want: &record.StatusLists{Number: number, TTLSeconds: 10, ValidAfter: began},
		},
		"enabled before a revocation": {
			tokensValidAfter: now.Add(time.Minute), want: &record.StatusLists{Number: number, TTLSeconds: 10, ValidAfter: now.Add(time.Minute)},
		},
		"unchanged": {current: lists(unchanged), want: lists(unchanged)},
		"another TTL": {
			ttl: time.Minute, current: lists(unchanged), want: lists(func(l *record.StatusLists) { l.TTLSeconds = 60 }),
		},
		"disabled": {
			disabled: true, current: lists(unchanged), want: lists(func(l *record.StatusLists) { l.Ending = true }),
		},
		"disabled, and the record says so": {
			disabled: true, current: lists(func(l *record.StatusLists) { l.Ending = true }),
			want: lists(func(l *record.StatusLists) { l.Ending, l.EndsAt = true, lastExpired }), wantNext: lastExpired,
		},
		"ended, and the record says so": {
			current: lists(func(l *record.StatusLists) { l.Ended = ended(record.EndedList{Number: 999}) }),
			want:    lists(func(l *record.StatusLists) { l.Ended = ended(record.EndedList{Number: 999, EndsAt: lastExpired}) }), wantNext: lastExpired,
		},
		"disabled, and a token is valid": {
			disabled: true, current: lists(func(l *record.StatusLists) { l.Ending, l.EndsAt = true, now.Add(time.Second) }),
			want: lists(func(l *record.StatusLists) { l.Ending, l.EndsAt = true, now.Add(time.Second) }), wantNext: now.Add(time.Second),
		},
		"disabled, and the last token has expired": {disabled: true, current: lists(func(l *record.StatusLists) { l.Ending, l.EndsAt = true, now })},
		"disabled, and an ended list has valid tokens": {
			disabled: true, current: lists(func(l *record.StatusLists) { l.Ending, l.EndsAt, l.Ended = true, now, ended(earlier) }),
			want: &record.StatusLists{TTLSeconds: 10, Ended: ended(earlier)}, wantNext: earlier.EndsAt,
		},
		"enabled again before the last token has expired": {
			current: lists(func(l *record.StatusLists) { l.Ending, l.EndsAt = true, now.Add(time.Second) }), want: lists(unchanged),
		},
		"enabled again after the current list has ended": {
			current: &record.StatusLists{TTLSeconds: 10, Ended: ended(earlier)},
			want:    &record.StatusLists{Number: number, TTLSeconds: 10, Ended: ended(earlier)}, wantNext: earlier.EndsAt,
		},
		"revoked": {
			current: lists(unchanged), tokensValidAfter: now.Add(-time.Minute),
			want: &record.StatusLists{
				Number: number, TTLSeconds: 10, ValidAfter: now.Add(-time.Minute),
				Ended: ended(record.EndedList{Number: began.Unix() + 1}),
			},
		},
		"revoked now": {
			current: lists(unchanged), tokensValidAfter: now,
			want: &record.StatusLists{
				Number: number, TTLSeconds: 10, ValidAfter: now,
				Ended: ended(record.EndedList{Number: began.Unix() + 1}),
			},
		},
		"revoked in the future": {
			current: lists(unchanged), tokensValidAfter: now.Add(time.Minute),
			want: &record.StatusLists{
				Number: number, TTLSeconds: 10, ValidAfter: now.Add(time.Minute),
				Ended: ended(record.EndedList{Number: began.Unix() + 1}),
			},
		},
		"revoked before the list began": {
			current: lists(func(l *record.StatusLists) { l.ValidAfter = began }), tokensValidAfter: began,
			want: lists(func(l *record.StatusLists) { l.ValidAfter = began }),
		},
		"a revocation is taken back": {
			current: lists(func(l *record.StatusLists) { l.ValidAfter = now }), tokensValidAfter: began,
			want: lists(func(l *record.StatusLists) { l.ValidAfter = began }),
		},
		"revoked while disabled": {
			disabled: true, current: lists(func(l *record.StatusLists) { l.Ending, l.EndsAt = true, now.Add(time.Second) }), tokensValidAfter: now,
			want: &record.StatusLists{TTLSeconds: 10, Ended: ended(record.EndedList{Number: began.Unix() + 1})},
		},
		"the list began after the rollback was found": {
			current: lists(func(l *record.StatusLists) { l.RolledBackAt = began }), rolledBack: began, want: lists(func(l *record.StatusLists) { l.RolledBackAt = began }),
		},
		"another operator found the rollback earlier": {
			current: lists(func(l *record.StatusLists) { l.RolledBackAt = now }), rolledBack: began, want: lists(func(l *record.StatusLists) { l.RolledBackAt = now }),
		},
		"rolled back": {
			current: lists(unchanged), rolledBack: began,
			want: &record.StatusLists{
				Number: number, TTLSeconds: 10, RolledBackAt: began, Ended: ended(record.EndedList{Number: began.Unix() + 1}),
			},
		},
		"rolled back according to a clock that is fast": {
			current: lists(unchanged), rolledBack: now.Add(time.Minute),
			want: &record.StatusLists{
				Number: number, TTLSeconds: 10, RolledBackAt: now.Add(time.Minute), Ended: ended(record.EndedList{Number: began.Unix() + 1}),
			},
		},
		"the list began with a clock that was fast": {
			current: lists(func(l *record.StatusLists) { l.Number = number + 100 }), rolledBack: now,
			want: &record.StatusLists{
				Number: number + 101, TTLSeconds: 10, RolledBackAt: now, Ended: ended(record.EndedList{Number: number + 100}),
			},
		},
		"rolled back and enabled": {
			rolledBack: now.Add(time.Minute), want: &record.StatusLists{Number: number, TTLSeconds: 10, RolledBackAt: now.Add(time.Minute)},
		},
		"an ended list is served until the last token has expired": {
			current:  lists(func(l *record.StatusLists) { l.Ended = ended(earlier, record.EndedList{Number: 999, EndsAt: now}) }),
			want:     lists(func(l *record.StatusLists) { l.Ended = ended(earlier) }),
			wantNext: earlier.EndsAt,
		},
		"the earliest of too many ended lists is no longer served": {
			current: lists(func(l *record.StatusLists) { l.Ended = many }), tokensValidAfter: now,
			want: &record.StatusLists{
				Number: number, TTLSeconds: 10, ValidAfter: now,
				Ended: slices.Concat(ended(record.EndedList{Number: began.Unix() + 1}), many[:record.MaxEndedLists-1]),
			},
			wantNext: earlier.EndsAt,
		},
		"the clock was set back": {
			current: lists(func(l *record.StatusLists) { l.Number = number + 100 }), tokensValidAfter: now,
			want: &record.StatusLists{
				Number: number + 101, TTLSeconds: 10, ValidAfter: now, Ended: ended(record.EndedList{Number: number + 100}),
			},
		},
		"the clock was set back after a list had ended": {
			current: &record.StatusLists{TTLSeconds: 10, Ended: ended(record.EndedList{Number: number + 100, EndsAt: lastExpired})},
			want:    &record.StatusLists{Number: number + 101, TTLSeconds: 10, Ended: ended(record.EndedList{Number: number + 100, EndsAt: lastExpired})}, wantNext: lastExpired,
		},
	}
	keys := []signingkey.Key{{State: signingkey.Retiring, LongestLifetime: lifetime}, {State: signingkey.Active, LongestLifetime: time.Minute}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := &v1beta1.StatusList{Enabled: !tt.disabled}
			if tt.ttl != 0 {
				spec.TTL = &v1beta1.Duration{Duration: tt.ttl}
			}
			var before *record.StatusLists
			if tt.current != nil {
				before = new(*tt.current)
			}
			got, next := statusLists(spec, tt.current, keys, tt.tokensValidAfter, tt.rolledBack, skew, now)
			testkit.Diff(t, "lists", tt.want, got)
			testkit.Diff(t, "time of the next change", tt.wantNext, next)
			testkit.Diff(t, "the earlier record", before, tt.current)
			counted, _ := statusLists(spec, got, keys, tt.tokensValidAfter, tt.rolledBack, skew, now) // from the record
			again, _ := statusLists(spec, counted, keys, tt.tokensValidAfter, tt.rolledBack, skew, now)
			testkit.Diff(t, "lists, decided again", counted, again)
		})
	}
}

// A list ends with its last token, however often the realm revokes tokens, and no number occurs twice.
func TestStatusListNumbersGrow(t *testing.T) {
	keys := []signingkey.Key{{State: signingkey.Active, LongestLifetime: time.Minute}}
	var lists *record.StatusLists
	last := int64(0)
	for i, at := range []time.Duration{0, 0, time.Second, time.Second, -time.Hour, -time.Hour + time.Second, 0, time.Hour, 10 * time.Hour} {
		spec := &v1beta1.StatusList{Enabled: true}
		lists, _ = statusLists(spec, lists, keys, now.Add(time.Duration(i)*time.Nanosecond-2*time.Hour), time.Time{}, time.Minute, now.Add(at))
		if lists.Number <= last {
			t.Fatalf("list %d follows list %d after %s", lists.Number, last, at)
		}
		last = lists.Number
		if len(lists.Ended) > record.MaxEndedLists {
			t.Errorf("%d ended lists are served", len(lists.Ended))
		}
	}
}
