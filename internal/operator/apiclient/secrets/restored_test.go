package secrets_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
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

	in := func(s secret, serial int64) *secrets.Credentials {
		return &secrets.Credentials{Current: s.value(serial)}
	}
	// want contains the IDs of the secrets. An empty ID is a new secret.
	for name, test := range map[string]struct {
		facts        secrets.Facts
		want         secrets.Want
		wantSecrets  []string
		wantRestored []string
		wantDeliver  string
	}{
		"no credentials Secret":               {secrets.Facts{Restored: backup}, generated, nil, []string{older.ID, old.ID}, ""},
		"credentials Secret of the backup":    {secrets.Facts{Restored: backup, Live: true, Credentials: in(old, 0)}, generated, []string{old.ID}, []string{older.ID}, old.plaintext},
		"a new secret":                        {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Serial: 1, Credentials: in(own, 1)}, generated, []string{own.ID}, []string{older.ID, old.ID}, own.plaintext},
		"a new secret is revoked":             {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Serial: 1, Live: true}, generated, nil, []string{older.ID, old.ID}, ""},
		"credentials Secret restored later":   {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Serial: 1, Live: true, Credentials: in(old, 0)}, generated, []string{own.ID, old.ID}, []string{older.ID}, old.plaintext},
		"the same secret is provided":         {secrets.Facts{Restored: backup}, provided, []string{old.ID}, []string{older.ID}, ""},
		"a provided secret is not hashed yet": {secrets.Facts{Restored: backup}, secrets.Want{Provided: &secrets.Provided{Source: "uid/1/key"}}, nil, []string{older.ID, old.ID}, ""},
		"other hashes are listed":             {secrets.Facts{Restored: backup}, hashed, []string{listed.ID}, nil, ""},
		"a hash is no longer listed":          {secrets.Facts{Restored: spec}, hashed, []string{listed.ID}, nil, ""},
		"a listed hash has expired":           {secrets.Facts{Restored: spec}, expired, nil, nil, ""},
		"another hash has the ID":             {secrets.Facts{Restored: []record.ClientSecret{{ID: listed.ID, Hash: old.Hash, Source: secrets.SourceSpec}}}, hashed, []string{listed.ID}, nil, ""},
		"no secret any longer":                {secrets.Facts{Restored: backup}, secrets.Want{}, nil, nil, ""},
		"restore finished":                    {secrets.Facts{Recorded: []record.ClientSecret{own.ClientSecret}, Serial: 1, Credentials: in(own, 1)}, generated, []string{own.ID}, nil, own.plaintext},
		"one has expired": {
			secrets.Facts{Restored: []record.ClientSecret{older.until(now), old.ClientSecret}}, generated, nil, []string{old.ID}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.Value(secrets.Make(test.facts, test.want, now, rand.Reader))(t)
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
			testkit.Diff(t, "secrets", test.wantSecrets, ids(p.Secrets), cmpopts.EquateEmpty())
			testkit.Diff(t, "restored", test.wantRestored, ids(p.Restored), cmpopts.EquateEmpty())
			if test.wantDeliver != "" && p.Current.Plaintext != test.wantDeliver {
				t.Errorf("delivers %q, want %q", p.Current.Plaintext, test.wantDeliver)
			}
		})
	}
}
