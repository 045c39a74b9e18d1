package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// planned is what a test says of a key: made and signing times count from start.
type planned struct {
	Algorithm                      signingkey.Algorithm
	State                          signingkey.State
	CreatedAt, ActiveAt, RetiredAt time.Duration
	LongestLifetime, RemoveAt      time.Duration
}

func summary(keys []signingkey.Key) []planned {
	since := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		return at.Sub(start)
	}
	var all []planned
	for _, k := range keys {
		all = append(all, planned{
			Algorithm: k.Algorithm, State: k.State, CreatedAt: since(k.CreatedAt), ActiveAt: since(k.ActiveAt),
			RetiredAt: since(k.RetiredAt), LongestLifetime: k.LongestLifetime, RemoveAt: since(k.RemoveAt()),
		})
	}
	return all
}

func TestPlan(t *testing.T) {
	const (
		ahead    = time.Hour
		lifetime = 5 * time.Minute
		pending  = signingkey.Pending
		active   = signingkey.Active
		retiring = signingkey.Retiring
	)
	type step struct {
		at        time.Duration // from start
		algorithm signingkey.Algorithm
		lifetime  time.Duration
		wantKeys  []planned
		wantNext  time.Duration
	}
	first := planned{Algorithm: signingkey.ES256, State: active, LongestLifetime: lifetime}
	tests := map[string][]step{
		"the first key is active at once": {
			{algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
		},
		"nothing changes as time passes": {
			{algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
			{at: 100 * 24 * time.Hour, algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
		},
		"the longest lifetime counts": {
			{algorithm: signingkey.ES256, lifetime: time.Hour, wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: time.Hour}}},
			{at: time.Minute, algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: time.Hour}}},
			{at: time.Hour, algorithm: signingkey.ES256, lifetime: 2 * time.Hour, wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: 2 * time.Hour}}},
		},
		"another algorithm: published, signing, alone": {
			{algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
			{at: time.Minute, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: time.Minute + ahead, wantKeys: []planned{
				first,
				{Algorithm: signingkey.EdDSA, State: pending, CreatedAt: time.Minute, ActiveAt: time.Minute + ahead},
			}},
			{at: ahead, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: time.Minute + ahead, wantKeys: []planned{
				first,
				{Algorithm: signingkey.EdDSA, State: pending, CreatedAt: time.Minute, ActiveAt: time.Minute + ahead},
			}},
			{at: ahead + time.Minute, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: ahead + 11*time.Minute, wantKeys: []planned{
				{Algorithm: signingkey.ES256, State: retiring, RetiredAt: ahead + time.Minute, LongestLifetime: lifetime, RemoveAt: ahead + 11*time.Minute},
				{Algorithm: signingkey.EdDSA, State: active, CreatedAt: time.Minute, ActiveAt: ahead + time.Minute, LongestLifetime: lifetime},
			}},
			{at: ahead + 11*time.Minute - time.Second, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: ahead + 11*time.Minute, wantKeys: []planned{
				{Algorithm: signingkey.ES256, State: retiring, RetiredAt: ahead + time.Minute, LongestLifetime: lifetime, RemoveAt: ahead + 11*time.Minute},
				{Algorithm: signingkey.EdDSA, State: active, CreatedAt: time.Minute, ActiveAt: ahead + time.Minute, LongestLifetime: lifetime},
			}},
			{at: ahead + 11*time.Minute, algorithm: signingkey.EdDSA, lifetime: lifetime, wantKeys: []planned{
				{Algorithm: signingkey.EdDSA, State: active, CreatedAt: time.Minute, ActiveAt: ahead + time.Minute, LongestLifetime: lifetime},
			}},
		},
		"a plan made late counts from when it is made": {
			{algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
			{at: time.Minute, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: time.Minute + ahead, wantKeys: []planned{
				first,
				{Algorithm: signingkey.EdDSA, State: pending, CreatedAt: time.Minute, ActiveAt: time.Minute + ahead},
			}},
			{at: 10 * ahead, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: 10*ahead + 10*time.Minute, wantKeys: []planned{
				{Algorithm: signingkey.ES256, State: retiring, RetiredAt: 10 * ahead, LongestLifetime: lifetime, RemoveAt: 10*ahead + 10*time.Minute},
				{Algorithm: signingkey.EdDSA, State: active, CreatedAt: time.Minute, ActiveAt: 10 * ahead, LongestLifetime: lifetime},
			}},
		},
		"a change taken back": {
			{algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
			{at: time.Minute, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: time.Minute + ahead, wantKeys: []planned{
				first,
				{Algorithm: signingkey.EdDSA, State: pending, CreatedAt: time.Minute, ActiveAt: time.Minute + ahead},
			}},
			{at: 2 * time.Minute, algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
		},
		"a change changed, though the time had come": {
			{algorithm: signingkey.ES256, lifetime: lifetime, wantKeys: []planned{first}},
			{at: time.Minute, algorithm: signingkey.EdDSA, lifetime: lifetime, wantNext: time.Minute + ahead, wantKeys: []planned{
				first,
				{Algorithm: signingkey.EdDSA, State: pending, CreatedAt: time.Minute, ActiveAt: time.Minute + ahead},
			}},
			{at: 2 * ahead, algorithm: signingkey.ES384, lifetime: lifetime, wantNext: 3 * ahead, wantKeys: []planned{
				first,
				{Algorithm: signingkey.ES384, State: pending, CreatedAt: 2 * ahead, ActiveAt: 3 * ahead},
			}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			var keys []signingkey.Key
			for _, s := range steps {
				policy := signingkey.Policy{Algorithm: s.algorithm, PublishAhead: ahead, TokenLifetime: s.lifetime}
				before := marshal(t, keys)
				got, next, err := signingkey.Plan(start.Add(s.at+300*time.Millisecond), keys, policy, rand.Reader)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(s.wantKeys, summary(got)); diff != "" {
					t.Fatalf("at %s (-want +got):\n%s", s.at, diff)
				}
				if want := s.wantNext; next.IsZero() != (want == 0) || want != 0 && !next.Equal(start.Add(want)) {
					t.Fatalf("at %s: the next plan is at %s, want %s after start", s.at, next, want)
				}
				if !bytes.Equal(marshal(t, keys), before) {
					t.Fatalf("at %s: the plan changed what it was given", s.at)
				}
				keys = got
			}
		})
	}
}
