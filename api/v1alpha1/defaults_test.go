package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

func TestEffectiveAlgorithm(t *testing.T) {
	for name, tc := range map[string]struct {
		signing v1alpha1.Signing
		want    v1alpha1.SigningAlgorithm
	}{
		"unset": {v1alpha1.Signing{}, v1alpha1.SigningAlgorithmES256},
		"set":   {v1alpha1.Signing{Algorithm: v1alpha1.SigningAlgorithmRS256}, v1alpha1.SigningAlgorithmRS256},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.signing.EffectiveAlgorithm(); got != tc.want {
				t.Errorf("Got %s, want %s", got, tc.want)
			}
		})
	}
}

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

func TestProvidedSecretDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		provided    v1alpha1.ProvidedSecret
		wantKey     string
		wantOverlap time.Duration
	}{
		"unset": {wantKey: "client_secret"},
		"set": {v1alpha1.ProvidedSecret{
			SecretRef: v1alpha1.SecretKeyReference{Key: "PASSWORD"}, Overlap: &v1alpha1.Duration{Duration: time.Hour},
		}, "PASSWORD", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.provided.SecretRef.EffectiveKey(); got != tc.wantKey {
				t.Errorf("Key: got %s, want %s", got, tc.wantKey)
			}
			if got := tc.provided.EffectiveOverlap(); got != tc.wantOverlap {
				t.Errorf("Overlap: got %s, want %s", got, tc.wantOverlap)
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

func TestApiClientDefaults(t *testing.T) {
	metadata := metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing"}
	for name, tc := range map[string]struct {
		spec           v1alpha1.ApiClientSpec
		wantClientID   string
		wantSecretName string
		wantDataKey    string // for client_id
		wantNoSecret   bool   // the operator generates no secret
	}{
		"all unset": {
			wantClientID:   "acme-apps.billing",
			wantSecretName: "billing",
			wantDataKey:    "client_id",
			wantNoSecret:   true,
		},
		"empty generated secret": {
			spec:           v1alpha1.ApiClientSpec{Secret: &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{}}},
			wantClientID:   "acme-apps.billing",
			wantSecretName: "billing",
			wantDataKey:    "client_id",
		},
		"keys": {
			spec:           v1alpha1.ApiClientSpec{PublicKeys: []v1alpha1.PublicKey{{KeyID: "a"}}},
			wantClientID:   "acme-apps.billing",
			wantSecretName: "billing",
			wantDataKey:    "client_id",
			wantNoSecret:   true,
		},
		"service accounts": {
			spec:           v1alpha1.ApiClientSpec{ServiceAccounts: []v1alpha1.ServiceAccountReference{{Name: "a"}}},
			wantClientID:   "acme-apps.billing",
			wantSecretName: "billing",
			wantDataKey:    "client_id",
			wantNoSecret:   true,
		},
		"keys and a secret": {
			spec: v1alpha1.ApiClientSpec{
				PublicKeys: []v1alpha1.PublicKey{{KeyID: "a"}},
				Secret:     &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{}},
			},
			wantClientID:   "acme-apps.billing",
			wantSecretName: "billing",
			wantDataKey:    "client_id",
		},
		"provided secret": {
			spec:           v1alpha1.ApiClientSpec{Secret: &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{}}},
			wantClientID:   "acme-apps.billing",
			wantSecretName: "billing",
			wantDataKey:    "client_id",
			wantNoSecret:   true,
		},
		"all set": {
			spec: v1alpha1.ApiClientSpec{
				ClientID: "bill",
				Secret: &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
					SecretName: "billing-oauth",
					Keys:       map[string]v1alpha1.SecretDataKey{v1alpha1.SecretKeyClientID: "OAUTH_CLIENT_ID"},
				}},
			},
			wantClientID:   "bill",
			wantSecretName: "billing-oauth",
			wantDataKey:    "OAUTH_CLIENT_ID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := &v1alpha1.ApiClient{ObjectMeta: metadata, Spec: tc.spec}
			if got := client.EffectiveClientID(); got != tc.wantClientID {
				t.Errorf("Client ID: got %q, want %q", got, tc.wantClientID)
			}
			if got := client.GeneratesSecret(); got == tc.wantNoSecret {
				t.Errorf("GeneratesSecret: got %t, want %t", got, !tc.wantNoSecret)
			}
			if got := client.EffectiveSecretName(); got != tc.wantSecretName {
				t.Errorf("Secret: got %q, want %q", got, tc.wantSecretName)
			}
			if got := client.GeneratedSecret().DataKey(v1alpha1.SecretKeyClientID); got != tc.wantDataKey {
				t.Errorf("Data key: got %q, want %q", got, tc.wantDataKey)
			}
		})
	}
}

func TestLabelSelector(t *testing.T) {
	for name, tc := range map[string]struct {
		selector v1alpha1.NamespaceSelector
		want     *metav1.LabelSelector
	}{
		"empty": {want: &metav1.LabelSelector{}},
		"both": {
			selector: v1alpha1.NamespaceSelector{
				MatchLabels: map[string]v1alpha1.LabelValue{"a": "b", "c": ""},
				MatchExpressions: []v1alpha1.NamespaceSelectorRequirement{
					{Key: "d", Operator: metav1.LabelSelectorOpIn, Values: []v1alpha1.LabelValue{"e", "f"}},
					{Key: "g", Operator: metav1.LabelSelectorOpExists},
				},
			},
			want: &metav1.LabelSelector{
				MatchLabels: map[string]string{"a": "b", "c": ""},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "d", Operator: metav1.LabelSelectorOpIn, Values: []string{"e", "f"}},
					{Key: "g", Operator: metav1.LabelSelectorOpExists},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.selector.LabelSelector()); diff != "" {
				t.Errorf("Selector (-want +got):\n%s", diff)
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
