package heartbeat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

var asked = sample.Renewed.Truncate(time.Millisecond)

// requesting returns the Lease that the API server stores for sample with requests.
func requesting(t *testing.T, requests []heartbeat.Refresh) *coordinationv1.Lease {
	t.Helper()
	beat := sample
	beat.Refresh = requests
	return stored(t, &beat)
}

// Requests are the same in every order, and a Lease without requests has no annotation.
func TestRefreshRoundTrip(t *testing.T) {
	want := []heartbeat.Refresh{
		{Realm: "acme", Issuer: "github", At: asked},
		{Realm: "acme", Issuer: "gitlab", At: asked.Add(-time.Second)},
		{Realm: "shop", Issuer: "github", At: asked.Add(time.Second)},
	}
	lease := requesting(t, []heartbeat.Refresh{want[2], want[0], want[1]})
	testkit.Diff(t, "result", want, heartbeat.ParseRefresh(lease))
	if encoded := requesting(t, want).Annotations[heartbeat.RefreshAnnotation]; encoded != lease.Annotations[heartbeat.RefreshAnnotation] {
		t.Errorf("sorted requests are encoded as %s, others as %s", encoded, lease.Annotations[heartbeat.RefreshAnnotation])
	}
	lease = requesting(t, nil)
	if value, ok := lease.Annotations[heartbeat.RefreshAnnotation]; ok || heartbeat.ParseRefresh(lease) != nil {
		t.Errorf("no requests are encoded as %q", value)
	}
}

// Of too many requests, a Lease contains the latest.
func TestRefreshIsLimited(t *testing.T) {
	var requests []heartbeat.Refresh
	for i := range heartbeat.MaxRefreshes + 10 {
		requests = append(requests, heartbeat.Refresh{Realm: "acme", Issuer: fmt.Sprintf("issuer-%03d", i), At: asked.Add(time.Duration(i) * time.Second)})
	}
	got := heartbeat.ParseRefresh(requesting(t, requests))
	testkit.Diff(t, "result", requests[10:], got)
}

// Invalid requests are skipped, and the Lease is still a heartbeat.
func TestParseRefreshSkipsInvalid(t *testing.T) {
	for name, value := range map[string]string{
		"no time":      "acme/github",
		"text as time": "acme/github=soon",
		"no issuer":    "acme=1",
		"empty realm":  "/github=1",
		"far too many": strings.Repeat(",", 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			lease := requesting(t, nil)
			lease.Annotations[heartbeat.RefreshAnnotation] = value
			if got := heartbeat.ParseRefresh(lease); got != nil {
				t.Errorf("requests %v, want none", got)
			}
			if _, err := heartbeat.Parse(lease); err != nil {
				t.Errorf("the Lease is not a heartbeat: %v", err)
			}
			lease.Annotations[heartbeat.RefreshAnnotation] = value[:min(len(value), 40)] + ",acme/github=1"
			testkit.Diff(t, "number of requests", 1, len(heartbeat.ParseRefresh(lease)))
		})
	}
}

// FuzzParseRefresh checks that the requests of a Lease are bounded, and that they are encoded and
// parsed again as the same requests.
func FuzzParseRefresh(f *testing.F) {
	f.Add("acme/github=1772366400123,acme/gitlab=1")
	f.Add("a/b=c,/=,==,//=1")
	f.Fuzz(func(t *testing.T, value string) {
		lease := requesting(t, nil)
		lease.Annotations[heartbeat.RefreshAnnotation] = value
		got := heartbeat.ParseRefresh(lease)
		if len(got) > heartbeat.MaxRefreshes {
			t.Fatalf("%d requests", len(got))
		}
		for _, r := range got {
			if strings.ContainsAny(r.Realm, "/,=") || strings.ContainsAny(r.Issuer, ",=") {
				t.Fatalf("request %q %q contains a separator", r.Realm, r.Issuer)
			}
		}
		if !slices.ContainsFunc(got, func(r heartbeat.Refresh) bool { return !validText(r.Realm) || !validText(r.Issuer) }) {
			if again := heartbeat.ParseRefresh(requesting(t, got)); len(again) != len(got) {
				t.Fatalf("%d requests are parsed as %d", len(got), len(again))
			}
		}
	})
}

// validText reports whether JSON preserves a name.
func validText(s string) bool { return strings.ToValidUTF8(s, "") == s }
