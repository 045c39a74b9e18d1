package heartbeat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

var sample = heartbeat.Heartbeat{Server: "token-server-7f-x", Version: "1042", Software: "v0.1.0-3-g9f2d26e1", Renewed: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)}

// stored returns the Lease that the API server stores for a heartbeat.
func stored(t *testing.T, beat *heartbeat.Heartbeat) *coordinationv1.Lease {
	t.Helper()
	data := testkit.Value(json.Marshal(beat.Lease("system")))(t)
	got := &coordinationv1.Lease{}
	testkit.Do(t, json.Unmarshal(data, got))
	return got
}

func TestRoundTrip(t *testing.T) {
	l := stored(t, &sample)
	got := testkit.Value(heartbeat.Parse(l))(t)
	testkit.Diff(t, "result", sample, got)
	if l.Name != heartbeat.LeaseName(sample.Server) || l.Namespace != "system" || l.Labels[heartbeat.Label] != heartbeat.LabelValue || *l.Spec.LeaseDurationSeconds != 30 {
		t.Errorf("Lease %s/%s with %v for %d s", l.Namespace, l.Name, l.Labels, *l.Spec.LeaseDurationSeconds)
	}
}

// The server owns each field that it applies, so the Lease contains no others.
func TestLeaseHasOnlyAppliedFields(t *testing.T) {
	beat := heartbeat.Heartbeat{Server: "a", Version: "7", Renewed: sample.Renewed}
	testkit.Diff(t, "Lease", `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1",`+
		`"metadata":{"name":"token-server-a","namespace":"system","labels":{"auth.realmkeeper.dev/heartbeat":"token-server"},"annotations":{"auth.realmkeeper.dev/loaded":"7"}},`+
		`"spec":{"holderIdentity":"a","leaseDurationSeconds":30,"renewTime":"2026-03-01T12:00:00.123456Z"}}`,
		string(testkit.Value(json.Marshal(beat.Lease("system")))(t)))
}

func TestParseRejectsInvalidLease(t *testing.T) {
	tests := map[string]func(*coordinationv1.Lease){
		"no holder":           func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
		"no renew time":       func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil },
		"non-numeric version": func(l *coordinationv1.Lease) { l.Annotations[heartbeat.LoadedAnnotation] = "newest" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			l := stored(t, &sample)
			change(l)
			if got, err := heartbeat.Parse(l); !errors.Is(err, heartbeat.ErrInvalidLease) || !cmp.Equal(got, heartbeat.Heartbeat{}) {
				t.Errorf("Parse: %+v and error %v, want error %v", got, err, heartbeat.ErrInvalidLease)
			}
		})
	}
}

// A server writes its Lease before it has loaded the records.
func TestLeaseWithoutVersion(t *testing.T) {
	joining := sample
	joining.Version = ""
	l := stored(t, &joining)
	if value, ok := l.Annotations[heartbeat.LoadedAnnotation]; ok {
		t.Errorf("the Lease contains the version %q", value)
	}
	got := testkit.Value(heartbeat.Parse(l))(t)
	testkit.Diff(t, "result", joining, got)
	if got.Serves("record", "1") {
		t.Error("a server without records serves one")
	}
}

// The mark of a dead server holds until it renews its Lease.
func TestDeadMark(t *testing.T) {
	tests := map[string]struct {
		change func(*coordinationv1.Lease)
		want   bool
	}{
		"marked":                     {func(*coordinationv1.Lease) {}, true},
		"renewed":                    {func(l *coordinationv1.Lease) { l.Spec.RenewTime.Time = l.Spec.RenewTime.Add(time.Microsecond) }, false},
		"mark of another renew time": {func(l *coordinationv1.Lease) { l.Annotations[heartbeat.DeadAnnotation] = "2026-03-01T12:00:00Z" }, false},
		"not marked":                 {func(l *coordinationv1.Lease) { delete(l.Annotations, heartbeat.DeadAnnotation) }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := stored(t, &sample)
			l.Annotations[heartbeat.DeadAnnotation] = heartbeat.DeadMark(l)
			tc.change(l)
			if got, err := heartbeat.Parse(l); err != nil || got.Dead != tc.want {
				t.Errorf("dead: %t, want %t; error %v", got.Dead, tc.want, err)
			}
		})
	}
}

func TestReached(t *testing.T) {
	tests := map[string]struct {
		version, wanted string
		want            bool
	}{
		"equal":                   {"42", "42", true},
		"newer":                   {"43", "42", true},
		"older":                   {"41", "42", false},
		"older with fewer digits": {"99", "100", false},
		"empty version":           {"", "42", false},
		"non-numeric version":     {"newest", "42", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "Reached", tc.want, heartbeat.Reached(tc.version, tc.wanted))
		})
	}
}

// A live server must survive two failed writes.
func TestIntervals(t *testing.T) {
	if heartbeat.Duration < 3*heartbeat.MaxInterval || heartbeat.MinInterval < 500*time.Millisecond || heartbeat.MinInterval > heartbeat.MaxInterval {
		t.Errorf("intervals %s to %s, duration %s", heartbeat.MinInterval, heartbeat.MaxInterval, heartbeat.Duration)
	}
}

// The version of the software is only shown, so a missing or invalid one doesn't invalidate the heartbeat.
func TestInvalidSoftwareIsUnknown(t *testing.T) {
	for name, value := range map[string]string{
		"missing":             "",
		"too long":            strings.Repeat("1", 129),
		"control characters":  "v1\x1b[31m",
		"spaces and line end": "v1 is\nnew",
	} {
		t.Run(name, func(t *testing.T) {
			l := stored(t, &sample)
			l.Annotations[heartbeat.SoftwareAnnotation] = value
			want := sample
			want.Software = ""
			testkit.Diff(t, "heartbeat", want, testkit.Value(heartbeat.Parse(l))(t))
		})
	}
}

// An annotation about usage that can't be parsed doesn't invalidate the heartbeat.
func TestUsageAnnotations(t *testing.T) {
	until := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		until, resolution string
		wantUntil         time.Time
		wantResolution    time.Duration
	}{
		"valid":            {until.Format(time.RFC3339), "6h0m0s", until, 6 * time.Hour},
		"invalid":          {"yesterday", "hourly", time.Time{}, 0},
		"no report so far": {},
	} {
		t.Run(name, func(t *testing.T) {
			lease := stored(t, &sample)
			lease.Annotations[heartbeat.UsageAnnotation], lease.Annotations[heartbeat.ResolutionAnnotation] = c.until, c.resolution
			want := sample
			want.UsageUntil, want.UsageResolution = c.wantUntil, c.wantResolution
			got := testkit.Value(heartbeat.Parse(lease))(t)
			testkit.Diff(t, "heartbeat", want, got)
			testkit.Diff(t, "heartbeat that is written again", want, testkit.Value(heartbeat.Parse(stored(t, &got)))(t))
		})
	}
}

// A Lease names the Realms with undecrypted keys and the unreadable records.
func TestNames(t *testing.T) {
	var many []string
	for n := range heartbeat.MaxNames {
		many = append(many, fmt.Sprintf("%s-%02d", strings.Repeat("x", 250), n))
	}
	for name, test := range map[string]struct {
		names, want []string
	}{
		"none":           {nil, nil},
		"sorted":         {[]string{"shop", "acme", "shop"}, []string{"acme", "shop"}},
		"the maximum":    {many, many},
		"more than that": {append([]string{"acme"}, many...), []string{heartbeat.All}},
	} {
		t.Run(name, func(t *testing.T) {
			beat := sample
			beat.UndecryptedPending, beat.UndecryptedActive, beat.Unreadable = test.names, test.names, test.names
			got := testkit.Value(heartbeat.Parse(stored(t, &beat)))(t)
			testkit.Diff(t, "undecrypted next keys", test.want, got.UndecryptedPending)
			testkit.Diff(t, "undecrypted active keys", test.want, got.UndecryptedActive)
			testkit.Diff(t, "unreadable", test.want, got.Unreadable)
			for _, name := range test.names {
				if got.DecryptedPending(name) || got.DecryptedActive(name) || got.Serves(name, sample.Version) {
					t.Errorf("the server has decrypted the key of %s or serves it", name)
				}
			}
			other := len(test.names) <= heartbeat.MaxNames
			if got.DecryptedPending("other") != other || got.DecryptedActive("other") != other || got.Serves("other", sample.Version) != other {
				t.Errorf("another name: next key decrypted %t, active key %t, served %t", got.DecryptedPending("other"), got.DecryptedActive("other"), got.Serves("other", sample.Version))
			}
		})
	}
}

// A token server can't make the operator remember more than MaxNames names of normal length.
func TestNamesAreLimited(t *testing.T) {
	for name, value := range map[string]string{
		"many names":  strings.Repeat("a,", heartbeat.MaxNames),
		"a long name": strings.Repeat("a", 100_000),
	} {
		l := stored(t, &sample)
		for _, annotation := range []string{heartbeat.UndecryptedPendingAnnotation, heartbeat.UndecryptedActiveAnnotation, heartbeat.UnreadableAnnotation} {
			l.Annotations[annotation] = value
		}
		got := testkit.Value(heartbeat.Parse(l))(t)
		all := []string{heartbeat.All}
		testkit.Diff(t, name, [][]string{all, all, all}, [][]string{got.UndecryptedPending, got.UndecryptedActive, got.Unreadable})
	}
}
