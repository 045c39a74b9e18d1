package v1alpha1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

func TestEffectiveRotation(t *testing.T) {
	every := func(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }
	for name, tc := range map[string]struct {
		signing      v1alpha1.Signing
		wantInterval time.Duration
		wantAhead    time.Duration
	}{
		"unset":                  {wantInterval: 720 * time.Hour, wantAhead: time.Hour},
		"only interval":          {v1alpha1.Signing{RotationInterval: every(24 * time.Hour)}, 24 * time.Hour, time.Hour},
		"only shortest interval": {v1alpha1.Signing{RotationInterval: every(time.Hour)}, time.Hour, 30 * time.Minute},
		"only publishAhead":      {v1alpha1.Signing{PublishAhead: every(24 * time.Hour)}, 720 * time.Hour, 24 * time.Hour},
		"both":                   {v1alpha1.Signing{RotationInterval: every(2 * time.Hour), PublishAhead: every(10 * time.Minute)}, 2 * time.Hour, 10 * time.Minute},
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
	of := func(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }
	for name, tc := range map[string]struct {
		rotation v1alpha1.SecretRotation
		want     time.Duration
	}{
		"unset":                  {v1alpha1.SecretRotation{}, 24 * time.Hour},
		"only long interval":     {v1alpha1.SecretRotation{Interval: of(720 * time.Hour)}, 24 * time.Hour},
		"only shortest interval": {v1alpha1.SecretRotation{Interval: of(time.Hour)}, 30 * time.Minute},
		"set":                    {v1alpha1.SecretRotation{Interval: of(time.Hour), Overlap: of(time.Minute)}, time.Minute},
		"zero":                   {v1alpha1.SecretRotation{Overlap: of(0)}, 0},
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
	selecting := func(r ...v1alpha1.NamespaceSelectorRequirement) v1alpha1.GrantedNamespaces {
		return v1alpha1.GrantedNamespaces{Selector: &v1alpha1.NamespaceSelector{MatchExpressions: r}}
	}
	unrestricted := v1alpha1.NamespaceSelectorRequirement{Key: "restricted", Operator: metav1.LabelSelectorOpDoesNotExist}
	notTest := v1alpha1.NamespaceSelectorRequirement{Key: "stage", Operator: metav1.LabelSelectorOpNotIn, Values: []v1alpha1.LabelValue{"test"}}
	for name, tc := range map[string]struct {
		granted v1alpha1.GrantedNamespaces
		labels  map[string]string
		want    bool
	}{
		"name, labels unknown":             {v1alpha1.GrantedNamespaces{Names: []string{"team"}}, nil, true},
		"all, labels unknown":              {v1alpha1.GrantedNamespaces{All: &v1alpha1.AllNamespaces{}}, nil, true},
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
