package v1beta1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

func TestEffectiveRotation(t *testing.T) {
	every := func(d time.Duration) *v1beta1.Duration { return &v1beta1.Duration{Duration: d} }
	for name, tc := range map[string]struct {
		signing      v1beta1.Signing
		wantInterval time.Duration
		wantAhead    time.Duration
	}{
		"unset":                  {wantInterval: 720 * time.Hour, wantAhead: time.Hour},
		"only interval":          {v1beta1.Signing{RotationInterval: every(24 * time.Hour)}, 24 * time.Hour, time.Hour},
		"only shortest interval": {v1beta1.Signing{RotationInterval: every(time.Hour)}, time.Hour, 30 * time.Minute},
		"only publishAhead":      {v1beta1.Signing{PublishAhead: every(24 * time.Hour)}, 720 * time.Hour, 24 * time.Hour},
		"both":                   {v1beta1.Signing{RotationInterval: every(2 * time.Hour), PublishAhead: every(10 * time.Minute)}, 2 * time.Hour, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.signing.EffectiveRotationInterval(); got != tc.wantInterval {
				t.Errorf("Interval: got %s, want %s", got, tc.wantInterval)
			}
			if got := tc.signing.EffectivePublishAhead(); got != tc.wantAhead {
				t.Errorf("Publish ahead: got %s, want %s", got, tc.wantAhead)
			}
		})
	}
}

func TestEffectiveOverlap(t *testing.T) {
	of := func(d time.Duration) *v1beta1.Duration { return &v1beta1.Duration{Duration: d} }
	for name, tc := range map[string]struct {
		rotation v1beta1.SecretRotation
		want     time.Duration
	}{
		"unset":                  {v1beta1.SecretRotation{}, 24 * time.Hour},
		"only long interval":     {v1beta1.SecretRotation{Interval: of(720 * time.Hour)}, 24 * time.Hour},
		"only shortest interval": {v1beta1.SecretRotation{Interval: of(time.Hour)}, 30 * time.Minute},
		"set":                    {v1beta1.SecretRotation{Interval: of(time.Hour), Overlap: of(time.Minute)}, time.Minute},
		"zero":                   {v1beta1.SecretRotation{Overlap: of(0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.rotation.EffectiveOverlap(); got != tc.want {
				t.Errorf("Got %s, want %s", got, tc.want)
			}
		})
	}
}

// Without the labels of a namespace, nothing shows that a selector excludes it.
func TestGrantedNamespacesInclude(t *testing.T) {
	selecting := func(r ...v1beta1.NamespaceSelectorRequirement) v1beta1.GrantedNamespaces {
		return v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchExpressions: r}}
	}
	unrestricted := v1beta1.NamespaceSelectorRequirement{Key: "restricted", Operator: metav1.LabelSelectorOpDoesNotExist}
	notTest := v1beta1.NamespaceSelectorRequirement{Key: "stage", Operator: metav1.LabelSelectorOpNotIn, Values: []v1beta1.LabelValue{"test"}}
	for name, tc := range map[string]struct {
		granted v1beta1.GrantedNamespaces
		labels  map[string]string
		want    bool
	}{
		"name, labels unknown":             {v1beta1.GrantedNamespaces{Names: []string{"team"}}, nil, true},
		"all, labels unknown":              {v1beta1.GrantedNamespaces{From: v1beta1.NamespacesFromAll}, nil, true},
		"DoesNotExist, labels unknown":     {selecting(unrestricted), nil, false},
		"DoesNotExist, no such label":      {selecting(unrestricted), map[string]string{}, true},
		"DoesNotExist, with the label":     {selecting(unrestricted), map[string]string{"restricted": ""}, false},
		"NotIn, labels unknown":            {selecting(notTest), nil, false},
		"NotIn, another value":             {selecting(notTest), map[string]string{"stage": "production"}, true},
		"empty selector, labels unknown":   {selecting(), nil, false},
		"empty selector, labels are known": {selecting(), map[string]string{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.granted.Includes("team", tc.labels); got != tc.want {
				t.Errorf("Got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestUnusedSince(t *testing.T) {
	created := metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rotated, used := metav1.NewTime(created.Add(48*time.Hour)), metav1.NewTime(created.Add(72*time.Hour))
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}
	for name, tc := range map[string]struct {
		credential v1beta1.CredentialStatus
		want       metav1.Time
	}{
		"used secret":           {v1beta1.CredentialStatus{CreationTime: &rotated, LastUsedTime: &used}, used},
		"used before, rounded":  {v1beta1.CredentialStatus{CreationTime: &rotated, LastUsedTime: &created}, rotated},
		"unused secret":         {v1beta1.CredentialStatus{CreationTime: &rotated}, rotated},
		"used identity":         {v1beta1.CredentialStatus{LastUsedTime: &used}, used},
		"identity never in use": {v1beta1.CredentialStatus{}, created},
	} {
		if got := c.UnusedSince(&tc.credential); !got.Equal(tc.want.Time) {
			t.Errorf("%s: unused since %s, want %s", name, got, tc.want)
		}
	}
}
