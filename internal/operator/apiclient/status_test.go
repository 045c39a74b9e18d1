package apiclient

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
)

// Only a failure of the Realm is one that GitOps tools wait for. Its suspension is intended, and is over
// when the Realm is Ready again.
func TestReadyFollowsRealm(t *testing.T) {
	for name, test := range map[string]struct {
		status     metav1.ConditionStatus // of the Realm; empty without a Ready condition
		reason     v1beta1.ConditionReason
		change     func(*observed)
		want       metav1.ConditionStatus
		wantReason v1beta1.ConditionReason
	}{
		"new":       {want: metav1.ConditionUnknown, wantReason: v1beta1.ReasonProgressing},
		"suspended": {status: metav1.ConditionFalse, reason: v1beta1.ReasonSuspended, want: metav1.ConditionFalse, wantReason: v1beta1.ReasonRealmSuspended},
		"suspended since": {
			status: metav1.ConditionTrue, reason: v1beta1.ReasonReady, change: func(s *observed) { s.realm.Spec.Suspend = true },
			want: metav1.ConditionFalse, wantReason: v1beta1.ReasonRealmSuspended,
		},
		"failed": {status: metav1.ConditionFalse, reason: v1beta1.ReasonKeysUnreadable, want: metav1.ConditionFalse, wantReason: v1beta1.ReasonRealmNotReady},
		"suspended, as the client": {
			status: metav1.ConditionFalse, reason: v1beta1.ReasonSuspended, change: func(s *observed) { s.client.Spec.Suspend = true },
			want: metav1.ConditionFalse, wantReason: v1beta1.ReasonSuspended,
		},
		"suspended, with a client that is not granted": {
			status: metav1.ConditionFalse, reason: v1beta1.ReasonSuspended, change: func(s *observed) { s.client.Spec.Scopes = v1beta1.Scopes{"write"} },
			want: metav1.ConditionFalse, wantReason: v1beta1.ReasonScopeNotInRealm,
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(func(s *observed) {
				if test.status != "" {
					s.realm.Status.Conditions = []metav1.Condition{{Type: string(v1beta1.ConditionReady), Status: test.status, Reason: string(test.reason)}}
				}
				if test.change != nil {
					test.change(s)
				}
			})
			d := decided(t, &seen, now)
			conditions := status(&seen, d, outcome{written: true, state: new(acknowledgement.Acknowledged)}).Conditions
			ready := meta.FindStatusCondition(conditions, string(v1beta1.ConditionReady))
			if ready.Status != test.want || ready.Reason != string(test.wantReason) {
				t.Errorf("Ready is %s: %s: %s; want %s: %s", ready.Status, ready.Reason, ready.Message, test.want, test.wantReason)
			}
			stalled := meta.IsStatusConditionTrue(conditions, string(v1beta1.ConditionStalled))
			if stalled != (test.wantReason == v1beta1.ReasonScopeNotInRealm) {
				t.Errorf("Stalled: %t with the reason %s", stalled, ready.Reason)
			}
		})
	}
}

// The first status waits for the token servers, but not for long. All others are written immediately.
func TestFirstStatusDelay(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		observedGeneration int64
		state              acknowledgement.State
		unrecorded         bool
		after              time.Duration
		want               time.Duration
	}{
		"new client":            {-1, acknowledgement.Waiting, false, time.Second, 4 * time.Second},
		"new client, confirmed": {-1, acknowledgement.Acknowledged, false, time.Second, 0},
		"slow token servers":    {-1, acknowledgement.Waiting, false, 5 * time.Second, 0},
		"clock is behind":       {-1, acknowledgement.Waiting, false, -time.Hour, 5 * time.Second},
		"changed client":        {1, acknowledgement.Waiting, false, time.Second, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &v1beta1.ApiClient{Status: v1beta1.ApiClientStatus{ObservedGeneration: test.observedGeneration}}
			done := outcome{state: &test.state, created: created}
			if test.unrecorded {
				done = outcome{}
			}
			if got := firstStatusDelay(c, done, created.Add(test.after)); max(got, 0) != test.want {
				t.Errorf("firstStatusDelay() = %s, want %s", got, test.want)
			}
		})
	}
}

// A client that has lost its grant is reconciled before others.
func TestLostGrant(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*v1beta1.Realm)
		accepted metav1.ConditionStatus
		want     bool
	}{
		"covered":            {func(*v1beta1.Realm) {}, metav1.ConditionTrue, false},
		"no grant":           {func(r *v1beta1.Realm) { r.Spec.Grants = nil }, metav1.ConditionTrue, true},
		"never had one":      {func(r *v1beta1.Realm) { r.Spec.Grants = nil }, metav1.ConditionFalse, false},
		"fewer audiences":    {func(r *v1beta1.Realm) { r.Spec.Grants[0].Audiences = []string{"https://other.example.com"} }, metav1.ConditionTrue, true},
		"Realm is deleted":   {func(r *v1beta1.Realm) { r.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, metav1.ConditionTrue, true},
		"Realm is suspended": {func(r *v1beta1.Realm) { r.Spec.Suspend = true }, metav1.ConditionTrue, false}, // Its own record says so.
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(func(s *observed) { test.change(s.realm) })
			c := seen.client.DeepCopy()
			c.Status.Conditions = []metav1.Condition{{Type: string(v1beta1.ConditionAccepted), Status: test.accepted}}
			cached := held{realm: seen.realm, namespaces: map[string]map[string]string{"team": {corev1.LabelMetadataName: "team"}}}
			r := Reconciler{Client: cached, Namespaces: namespaces.New(heldCache{held: cached}, cached, nil, time.Minute), Instance: instance()}
			if got := r.lostGrant(t.Context(), c); got != test.want {
				t.Errorf("lostGrant() = %t", got)
			}
		})
	}
}

func TestOldSecretUsed(t *testing.T) {
	at := func(status metav1.ConditionStatus, id string, used time.Time) v1beta1.ApiClientStatus {
		s := v1beta1.ApiClientStatus{Credentials: []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypeSecret, Name: id}, {Type: v1beta1.CredentialTypeSecret, Name: "new"}}}
		if !used.IsZero() {
			s.Credentials[0].LastUsedTime = &metav1.Time{Time: used}
		}
		if status != "" {
			s.Conditions = []metav1.Condition{{Type: "OldSecretInUse", Status: status, Message: "used"}}
		}
		return s
	}
	late := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		before, after v1beta1.ApiClientStatus
		want          bool
	}{
		"known to be used":      {at(metav1.ConditionUnknown, "a", now), at(metav1.ConditionTrue, "a", now), true},
		"used again that day":   {at(metav1.ConditionTrue, "a", now), at(metav1.ConditionTrue, "a", late), false},
		"the day of UTC counts": {at(metav1.ConditionTrue, "a", late), at(metav1.ConditionTrue, "a", late.Add(time.Hour-1).In(time.FixedZone("", 7200))), false},
		"another secret":        {at(metav1.ConditionTrue, "a", now), at(metav1.ConditionTrue, "b", now), true},
	} {
		t.Run(name, func(t *testing.T) {
			var want *events.Event
			if test.want {
				want = &events.Event{Type: "Warning", Reason: "OldSecretInUse", Action: "Rotate", Note: "used"}
			}
			testkit.Diff(t, "result", want, oldSecretUsed(&test.before, &test.after))
		})
	}
}

// The status has the values that tokens get, while the client is Accepted. A failed write of the record
// keeps the previous ones.
func TestEffectiveValues(t *testing.T) {
	seen := observe(func(s *observed) {
		s.realm.Spec.Scopes, s.realm.Spec.Audiences = []string{"write", "read"}, []string{"stock", "orders", "billing"}
		s.realm.Spec.Grants[0].Audiences = []string{"orders", "billing"}
		s.client.Spec.Scopes = []string{"write", "read"}
	})
	after := func(done outcome) v1beta1.ApiClientStatus {
		t.Helper()
		return status(&seen, decided(t, &seen, now), done)
	}
	written := outcome{written: true, state: new(acknowledgement.Acknowledged)}
	want := func(s v1beta1.ApiClientStatus, grant string, scopes, audiences []string) {
		t.Helper()
		testkit.Diff(t, "grant", grant, s.Grant)
		testkit.Diff(t, "scopes", scopes, s.Scopes)
		testkit.Diff(t, "audiences", audiences, s.Audiences)
	}
	want(after(outcome{}), "", nil, nil)
	s := after(written)
	want(s, "all", []string{"read", "write"}, []string{"billing", "orders"})
	testkit.Diff(t, "URLs", []string{
		"https://api.example.com/acme", "https://api.example.com/acme/oauth2/token", "https://realmkeeper-token-server.system.svc/acme/oauth2/token", "https://api.example.com/acme/oauth2/jwks",
	}, []string{s.Issuer, s.TokenEndpoint, s.ClusterTokenEndpoint, s.JWKSURI})
	seen.client.Status = s
	seen.client.Spec.Scopes = []string{"read"}
	want(after(outcome{}), "all", []string{"read", "write"}, []string{"billing", "orders"})
	seen.realm.Spec.Grants[0].Scopes = nil
	want(after(written), "", nil, nil)
}

// The status reports a record and a Secret only if they were written, and an older record only if no other is desired.
func TestOutcome(t *testing.T) {
	recorded := holding{recordSecret: &corev1.Secret{}, contentState: new(acknowledgement.Acknowledged)}
	desired := &record.Client{}
	for name, test := range map[string]struct {
		seen      holding
		desired   *record.Client
		written   []write
		want      outcome
		wantState bool
	}{
		"everything is written":      {recorded, desired, []write{putRecord{}, putCredentials{}}, outcome{written: true, delivered: true}, true},
		"the Secret isn't written":   {recorded, desired, []write{putRecord{}}, outcome{written: true}, true},
		"the record isn't written":   {recorded, desired, []write{holdIndex{}}, outcome{}, false},
		"no record is desired":       {recorded, nil, nil, outcome{}, true},
		"there is no record":         {holding{contentState: recorded.contentState}, nil, nil, outcome{}, false},
		"only the Secret is written": {holding{}, desired, []write{putCredentials{}}, outcome{delivered: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcomeOf(&observed{holding: test.seen}, &decision{desired: test.desired, credentials: &corev1ac.SecretApplyConfiguration{}, written: test.written})
			if got.written != test.want.written || got.delivered != test.want.delivered || (got.state != nil) != test.wantState {
				t.Errorf("got %+v", got)
			}
		})
	}
}
