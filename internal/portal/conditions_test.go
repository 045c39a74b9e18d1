package portal_test

import (
	"html/template"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/portal"
)

// The kind selects the color. Only conditions that prevent tokens are shown as failures.
func TestConditionKinds(t *testing.T) {
	tests := map[string]struct {
		condition v1alpha1.ConditionType
		status    metav1.ConditionStatus
		reason    v1alpha1.ConditionReason
		want      string
	}{
		"not ready yet":     {v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "busy"},
		"suspended":         {v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "off"},
		"stalled":           {v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRealmNotFound, "bad"},
		"imported hash":     {v1alpha1.ConditionWeakHash, metav1.ConditionTrue, v1alpha1.ReasonImportedHash, "busy"},
		"old secret in use": {v1alpha1.ConditionOldSecretInUse, metav1.ConditionTrue, v1alpha1.ReasonOldSecretUsed, "busy"},
		"restored":          {v1alpha1.ConditionRestored, metav1.ConditionTrue, v1alpha1.ReasonRestoredFromBackup, "good"},
		// Token servers keep the last keys of an issuer, so the realm stays Ready.
		"issuer not resolved": {v1alpha1.ConditionIssuersResolved, metav1.ConditionFalse, v1alpha1.ReasonIssuerNotResolved, "busy"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			views := conditionsOf(condition(tc.condition, tc.status, tc.reason, "Details."))
			if len(views) != 1 {
				t.Fatalf("got %d conditions, want 1", len(views))
			}
			if got := views[0]; got.Kind != tc.want || got.Name != string(tc.condition) || got.Reason != string(tc.reason) || got.Label == "" {
				t.Errorf("got %+v, want the name, the reason, and kind %s", got, tc.want)
			}
			if remedy := views[0].Remedy; (remedy == nil) != (tc.want == "good") {
				t.Errorf("got the remedy %+v for kind %s", remedy, tc.want)
			}
		})
	}
}

// Several conditions have the same reason, so a remedy and a message are shown with the first of them
// only.
func TestRemedyIsShownOnce(t *testing.T) {
	views := conditionsOf(
		condition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, "Another message."),
		condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, `Realm "acme" not found.`),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, `Realm "acme" not found.`),
	)
	if len(views) != 3 || views[0].Name != "Ready" || views[1].Remedy != nil || views[2].Remedy != nil {
		t.Fatalf("got %+v, want Ready first and the only remedy there", views)
	}
	if views[1].Message != "" || views[2].Message != "Another message." {
		t.Errorf("got the messages %q and %q, want only the second", views[1].Message, views[2].Message)
	}
	want := []portal.CommandView{{ID: "Ready-command-0", Text: "kubectl get realms"}}
	if first := views[0]; first.Message != `Realm "acme" not found.` || first.Remedy == nil || first.Remedy.Action == "" {
		t.Errorf("got %+v, want the message of the condition and a remedy", first)
	} else if diff := cmp.Diff(want, first.Remedy.Commands); diff != "" {
		t.Error(diff)
	}
}

// A newer operator may use reasons and conditions that this version doesn't know.
func TestUnknownConditions(t *testing.T) {
	views := conditionsOf(
		condition("Unknown", metav1.ConditionTrue, "Unknown", "x"),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "Unknown", "Details."),
	)
	if len(views) != 1 || views[0].Message != "Details." || views[0].Remedy != nil {
		t.Errorf("got %+v, want only Ready with its message", views)
	}
}

func condition(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: message}
}

func conditionsOf(conditions ...metav1.Condition) []portal.ConditionView {
	c := &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing"}}
	c.Spec.RealmRef.Name = "acme"
	realm := &v1alpha1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	if len(conditions) == 1 && conditions[0].Type == string(v1alpha1.ConditionIssuersResolved) {
		return portal.ConditionsOf(conditions, portal.RealmRemedies(realm))
	}
	return portal.ConditionsOf(conditions, portal.ClientRemedies(c, func() *v1alpha1.Realm { return nil }))
}

func TestStateOf(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: string(v1alpha1.ConditionReady), Status: status, Reason: string(reason), Message: message, ObservedGeneration: 2}}
	}
	tests := map[string]struct {
		conditions []metav1.Condition
		generation int64
		want       portal.State
	}{
		"no conditions yet": {nil, 1, portal.State{Name: portal.StateProgressing, Kind: "busy", Message: "The operator hasn't processed the latest change yet."}},
		"stale condition":   {ready(metav1.ConditionTrue, v1alpha1.ReasonReady, ""), 3, portal.State{Name: portal.StateProgressing, Kind: "busy", Message: "The operator hasn't processed the latest change yet."}},
		"ready":             {ready(metav1.ConditionTrue, v1alpha1.ReasonReady, "Message."), 2, portal.State{Name: portal.StateReady, Kind: "good"}},
		"progressing":       {ready(metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "Waiting."), 2, portal.State{Name: portal.StateProgressing, Kind: "busy", Message: "Waiting."}},
		"suspended":         {ready(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "x"), 2, portal.State{Name: portal.StateSuspended, Kind: "off", Message: portal.CauseOf(v1alpha1.ReasonSuspended)}},
		"realm suspended":   {ready(metav1.ConditionFalse, v1alpha1.ReasonRealmSuspended, "x"), 2, portal.State{Name: portal.StateSuspended, Kind: "off", Message: portal.CauseOf(v1alpha1.ReasonRealmSuspended)}},
		"expired":           {ready(metav1.ConditionFalse, v1alpha1.ReasonExpired, "x"), 2, portal.State{Name: portal.StateExpired, Kind: "off", Message: portal.CauseOf(v1alpha1.ReasonExpired)}},
		"not ready": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, `Realm "x" not found.`), 2,
			portal.State{Name: portal.StateNotReady, Kind: "bad", Message: `Realm "x" not found.`},
		},
		"not ready without a message": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, ""), 2,
			portal.State{Name: portal.StateNotReady, Kind: "bad", Message: portal.CauseOf(v1alpha1.ReasonRealmNotFound)},
		},
		"reason from a newer operator": {ready(metav1.ConditionFalse, "Unknown", "Message."), 2, portal.State{Name: portal.StateNotReady, Kind: "bad", Message: "Message."}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, portal.StateOf(tc.conditions, tc.generation)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The cursor comes from the URL, so it can be any string.
func TestParseCursor(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "7.abc": "7.abc", "0.abc": "0.abc", "12.": "12.", "-1.abc": "", "20000.abc": "20000.abc", "20001.abc": "", "x.abc": "", "7": "", "7.a.b": "7.a.b",
	} {
		if got := portal.ParseCursor(value).String(); got != want {
			t.Errorf("ParseCursor(%q) = %q, want %q", value, got, want)
		}
	}
}

func TestRelative(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		0:                               "less than a minute ago",
		29 * time.Second:                "less than a minute ago",
		30 * time.Second:                "1 minute ago",
		59*time.Minute + 29*time.Second: "59 minutes ago",
		59*time.Minute + 30*time.Second: "1 hour ago",
		89 * time.Minute:                "1 hour ago",
		90 * time.Minute:                "2 hours ago",
		23*time.Hour + 29*time.Minute:   "23 hours ago",
		23*time.Hour + 30*time.Minute:   "1 day ago",
		90 * day:                        "90 days ago",
		100 * day:                       "3 months ago",
		2 * 365 * day:                   "2 years ago",
		-time.Second:                    "in less than a minute",
		-24*time.Hour + time.Second:     "in 1 day",
		-300 * day:                      "in 10 months",
	} {
		if got := portal.Relative(now.Add(-ago), now); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
	if got := portal.Relative(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), now); got != "in 292 years" {
		t.Errorf("The longest duration is shown as %q", got)
	}
}

func TestTimesShowExactTimeOnHover(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	at := func(ago time.Duration) *metav1.Time {
		return &metav1.Time{Time: now.Add(-ago).In(time.FixedZone("", 3600))}
	}
	for name, tc := range map[string]struct{ got, want template.HTML }{
		"relative":        {portal.RelativeTime(at(2*time.Hour), now), `<time datetime="2026-03-04T03:06:07Z" title="2026-03-04 03:06 UTC">2 hours ago</time>`},
		"relative, unset": {portal.RelativeTime(nil, now), ""},
		"exact":           {portal.ExactTime(at(2 * time.Hour)), `<time datetime="2026-03-04T03:06:07Z">2026-03-04 03:06 UTC</time>`},
		"exact, unset":    {portal.ExactTime(&metav1.Time{}), ""},
		"use in this period": {
			portal.UseTime(at(7*time.Second), now),
			`<time datetime="2026-03-04T05:06:00Z" title="In the period from 2026-03-04 05:06 UTC">less than an hour ago</time>`,
		},
		"earlier use": {portal.UseTime(at(time.Hour), now), `<time datetime="2026-03-04T04:06:07Z" title="In the period from 2026-03-04 04:06 UTC">1 hour ago</time>`},
		"no use":      {portal.UseTime(nil, now), "Never"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
}
