package secrets_test

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// whenUnused ends an old secret after a day without use, and after 30 days in any case.
var whenUnused = secrets.Schedule{Overlap: 30 * 24 * time.Hour, UnusedFor: 24 * time.Hour}

func TestOldSecretEndsWhenUnused(t *testing.T) {
	const day, hour = 24 * time.Hour, time.Hour
	older, newer := newSecret(t, now.Add(-day)), newSecret(t, now.Add(-hour))
	for name, test := range map[string]struct {
		schedule  secrets.Schedule
		use       *secrets.Use
		after     time.Duration // the time of the plan, after now
		wantEnd   bool
		wantCheck time.Duration // after the time of the plan
	}{
		"unused since its replacement":    {whenUnused, &secrets.Use{Last: now.Add(-day), Until: now.Add(day)}, day, true, 0},
		"never used":                      {whenUnused, &secrets.Use{Until: now.Add(day)}, day, true, 0},
		"a second too early":              {whenUnused, &secrets.Use{Until: now.Add(day - time.Second)}, day, false, time.Second},
		"used since its replacement":      {whenUnused, &secrets.Use{Last: now.Add(3 * hour), Until: now.Add(day)}, day, false, 3 * hour},
		"unused since its last use":       {whenUnused, &secrets.Use{Last: now.Add(3 * hour), Until: now.Add(day + 3*hour)}, day + 3*hour, true, 0},
		"reports are late":                {whenUnused, &secrets.Use{Until: now.Add(hour)}, 9 * day, false, 23 * hour},
		"last use after the last report":  {whenUnused, &secrets.Use{Last: now.Add(2 * day), Until: now.Add(day)}, 3 * day, false, 2 * day},
		"uses are not known":              {whenUnused, nil, 9 * day, false, 0},
		"an overlap":                      {secrets.Schedule{Overlap: 30 * day}, &secrets.Use{Until: now.Add(9 * day)}, 9 * day, false, -1},
		"at the maximum, used until then": {whenUnused, &secrets.Use{Last: now.Add(30 * day), Until: now.Add(30 * day)}, 30 * day, true, 0},
		"at the maximum, not known":       {whenUnused, nil, 30 * day, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			old := older.retiring(now, now.Add(30*day))
			f := secrets.Facts{Recorded: []record.ClientSecret{old, newer.ClientSecret}, Serial: 2, Credentials: &secrets.Credentials{Current: newer.value(2)}}
			if test.use != nil {
				f.Uses = map[string]secrets.Use{old.ID: *test.use, newer.ID: {Until: now.Add(90 * day)}}
			}
			at := now.Add(test.after)
			got := testkit.Value(secrets.Make(f, secrets.Want{Generated: &test.schedule}, at, noRandom))(t)
			want := secrets.Plan{Secrets: []record.ClientSecret{newer.ClientSecret}, Serial: 2, Current: newer.value(2), Continuous: true}
			if test.wantEnd && at.Before(old.ExpiresAt) {
				want.Step, want.Unfinished = secrets.StepEndedUnused, true
			}
			if !test.wantEnd {
				want.Secrets = []record.ClientSecret{old, newer.ClientSecret}
				if test.wantCheck >= 0 {
					want.Check = at.Add(test.wantCheck)
				}
			}
			testkit.Diff(t, "plan", want, got)
		})
	}
}
