package secrets_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

func TestRestoredSecrets(t *testing.T) {
	old, older, own := newSecret(t, now.Add(-48*time.Hour)), newSecret(t, now.Add(-96*time.Hour)), newSecret(t, now)
	listed := newSecret(t, now.Add(-time.Hour))
	backup := []record.ClientSecret{older.until(now.Add(time.Hour)), old.ClientSecret}
	generated := secrets.Want{Generated: &secrets.Schedule{Overlap: 24 * time.Hour}}
	provided := secrets.Want{Provided: &secrets.Provided{Source: "uid/1/key", Hash: old.Hash, Overlap: time.Hour}}
	hashed := secrets.Want{Hashed: []record.ClientSecret{{ID: listed.ID, Hash: listed.Hash}}}
	expired := secrets.Want{Hashed: []record.ClientSecret{{ID: listed.ID, Hash: listed.Hash, ExpiresAt: now}}}
	spec := []record.ClientSecret{old.from(secrets.SourceSpec), listed.from(secrets.SourceSpec)}

	// want contains the IDs of the secrets. An empty ID is a new secret.
	for name, test := range map[string]struct {
		facts        secrets.Facts
		want         secrets.Want
		wantSecrets  []string
		wantRestored []string
		wantDeliver  string
	}{
		"no credentials Secret":               {secrets.Facts{Restored: backup}, generated, []string{""}, []string{older.ID, old.ID}, ""},
		"credentials Secret of the backup":    {secrets.Facts{Restored: backup, Delivered: []string{old.plaintext}}, generated, []string{old.ID}, []string{older.ID}, old.plaintext},
		"a new secret is pending":             {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Pending: own.plaintext}, generated, []string{own.ID}, []string{older.ID, old.ID}, own.plaintext},
		"a new secret is lost":                {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}}, generated, []string{""}, []string{older.ID, old.ID}, ""},
		"a new secret is delivered":           {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Delivered: []string{own.plaintext}}, generated, []string{own.ID}, []string{older.ID, old.ID}, own.plaintext},
		"credentials Secret restored later":   {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Delivered: []string{old.plaintext}}, generated, []string{old.ID}, []string{older.ID}, old.plaintext},
		"the same secret is provided":         {secrets.Facts{Restored: backup}, provided, []string{old.ID}, []string{older.ID}, ""},
		"a provided secret is not hashed yet": {secrets.Facts{Restored: backup}, secrets.Want{Provided: &secrets.Provided{Source: "uid/1/key"}}, nil, []string{older.ID, old.ID}, ""},
		"other hashes are listed":             {secrets.Facts{Restored: backup}, hashed, []string{listed.ID}, nil, ""},
		"a hash is no longer listed":          {secrets.Facts{Restored: spec}, hashed, []string{listed.ID}, nil, ""},
		"a listed hash has expired":           {secrets.Facts{Restored: spec}, expired, nil, nil, ""},
		"another hash has the ID":             {secrets.Facts{Restored: []record.ClientSecret{{ID: listed.ID, Hash: old.Hash, Source: secrets.SourceSpec}}}, hashed, []string{listed.ID}, nil, ""},
		"no secret any longer":                {secrets.Facts{Restored: backup}, secrets.Want{}, nil, nil, ""},
		"restore finished":                    {secrets.Facts{Recorded: []record.ClientSecret{own.ClientSecret}, Delivered: []string{own.plaintext}}, generated, []string{own.ID}, nil, own.plaintext},
		"one has expired": {
			secrets.Facts{Restored: []record.ClientSecret{older.until(now), old.ClientSecret}}, generated, []string{""}, []string{old.ID}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := secrets.Make(test.facts, test.want, now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			known := map[string]bool{old.ID: true, older.ID: true, own.ID: true, listed.ID: true}
			ids := func(all []record.ClientSecret) (ids []string) {
				for _, s := range all {
					if !known[s.ID] {
						s.ID = ""
					}
					ids = append(ids, s.ID)
				}
				return ids
			}
			if diff := cmp.Diff(test.wantSecrets, ids(p.Secrets), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wantRestored, ids(p.Restored), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
			if test.wantDeliver != "" && p.Deliver != test.wantDeliver {
				t.Errorf("delivers %q, want %q", p.Deliver, test.wantDeliver)
			}
		})
	}
}

// TestRestoredSecretsOnlyEnd plans a restored client over time. A restored secret is accepted, as a
// restored or as the client's own secret, until it expires, and never returns.
func TestRestoredSecretsOnlyEnd(t *testing.T) {
	var pool []secret
	for range 4 {
		pool = append(pool, newSecret(t, now.Add(-time.Hour)))
	}
	rapid.Check(t, func(t *rapid.T) {
		at := now
		f := secrets.Facts{}
		for _, s := range pool {
			if rapid.Bool().Draw(t, "expires") {
				f.Restored = append(f.Restored, s.until(now.Add(time.Duration(rapid.IntRange(1, 72).Draw(t, "hours"))*time.Hour)))
			} else {
				f.Restored = append(f.Restored, s.ClientSecret)
			}
		}
		if rapid.Bool().Draw(t, "credentials Secret exists") {
			f.Delivered = []string{rapid.SampledFrom(pool).Draw(t, "delivered").plaintext}
		}
		want := secrets.Want{Generated: &secrets.Schedule{Interval: 24 * time.Hour, Overlap: time.Hour}}
		ended := map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			p, err := secrets.Make(f, want, at, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range pool {
				restored, own := accepts(p.Restored, s.plaintext, at), accepts(p.Secrets, s.plaintext, at)
				switch {
				case restored && own:
					t.Fatalf("secret %s is accepted twice", s.ID)
				case (restored || own) && ended[s.ID]:
					t.Fatalf("secret %s returned", s.ID)
				case accepts(f.Restored, s.plaintext, at) && !restored && !own:
					t.Fatalf("secret %s ended early", s.ID)
				}
				ended[s.ID] = !restored && !own
			}
			f.Recorded, f.Restored, f.Pending, f.Acknowledged = p.Secrets, p.Restored, p.Pending, rapid.Bool().Draw(t, "acknowledged")
			again, err := secrets.Make(f, want, at, rand.Reader)
			if diff := cmp.Diff(p.Restored, again.Restored, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatalf("planning twice (-first +second):\n%s, %v", diff, err)
			}
			switch {
			case p.Deliver != "" && rapid.Bool().Draw(t, "written"):
				f.Delivered = []string{p.Deliver}
			case rapid.Bool().Draw(t, "crash"):
				f.Pending = ""
			}
			if rapid.Bool().Draw(t, "lost") {
				f.Delivered = nil
			}
			at = at.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "pause")) * time.Hour)
		}
	})
}
