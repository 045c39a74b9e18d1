package v1beta1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		"all, labels unknown":              {v1beta1.GrantedNamespaces{All: &v1beta1.AllNamespaces{}}, nil, true},
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

func TestCredentialUses(t *testing.T) {
	created := metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rotated, used := metav1.NewTime(created.Add(48*time.Hour)), metav1.NewTime(created.Add(72*time.Hour))
	job := v1beta1.FederatedIdentity{Issuer: "github", Subject: "repo:acme/shop"}
	group := v1beta1.FederatedIdentity{Issuer: "gitlab", Claims: v1beta1.ClaimMatch{"ref": "main", "project": "7"}}
	c := &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created},
		Spec: v1beta1.ApiClientSpec{
			PublicKeys:      []v1beta1.PublicKey{{KeyID: "2026-03"}},
			ServiceAccounts: []v1beta1.ServiceAccountReference{{Name: "shop"}},
			FederatedIdentities: []v1beta1.FederatedIdentity{
				job, group,
				{Issuer: v1beta1.IssuerKubernetes, Subject: "system:serviceaccount:acme-apps:shop"},
				{Issuer: v1beta1.IssuerKubernetes, Subject: "system:serviceaccount:acme-apps:jobs"},
			},
		},
		Status: v1beta1.ApiClientStatus{
			Secrets: []v1beta1.ClientSecretStatus{{ID: "old", CreationTime: created, ExpirationTime: &used, LastUsedTime: &used}, {ID: "new", CreationTime: rotated}},
			Credentials: []v1beta1.CredentialStatus{
				{Type: v1beta1.CredentialTypeServiceAccount, ID: "jobs", LastUsedTime: used},
				{Type: v1beta1.CredentialTypeFederatedIdentity, ID: job.ID(), LastUsedTime: used},
				{Type: v1beta1.CredentialTypePublicKey, ID: "removed", LastUsedTime: used},
			},
		},
	}
	want := []v1beta1.CredentialUse{
		{Type: v1beta1.CredentialTypeSecret, ID: "old", Name: "old", CreationTime: created.Time, LastUsed: used.Time, ExpirationTime: used.Time},
		{Type: v1beta1.CredentialTypeSecret, ID: "new", Name: "new", CreationTime: rotated.Time},
		{Type: v1beta1.CredentialTypePublicKey, ID: "2026-03", Name: "2026-03", CreationTime: created.Time},
		{Type: v1beta1.CredentialTypeServiceAccount, ID: "shop", Name: "shop", CreationTime: created.Time},
		{Type: v1beta1.CredentialTypeFederatedIdentity, ID: job.ID(), Name: "github repo:acme/shop", CreationTime: created.Time, LastUsed: used.Time},
		{Type: v1beta1.CredentialTypeFederatedIdentity, ID: group.ID(), Name: "gitlab project=7 ref=main", CreationTime: created.Time},
		{Type: v1beta1.CredentialTypeServiceAccount, ID: "jobs", Name: "jobs", CreationTime: created.Time, LastUsed: used.Time},
	}
	uses := c.CredentialUses()
	if diff := cmp.Diff(want, uses); diff != "" {
		t.Fatalf("CredentialUses (-want +got):\n%s", diff)
	}
	if got := uses[0].UnusedSince(); !got.Equal(used.Time) {
		t.Errorf("the old secret is unused since %s, want its last use %s", got, used)
	}
	if got := uses[1].UnusedSince(); !got.Equal(rotated.Time) {
		t.Errorf("the new secret is unused since %s, want its creation %s", got, rotated)
	}
}

// The ID is stored in status and records, so it must not change, and differ for different identities.
func TestFederatedIdentityID(t *testing.T) {
	identity := v1beta1.FederatedIdentity{Issuer: "github", Subject: "repo:acme/shop"}
	if got, want := identity.ID(), "github-e957753d6711"; got != want {
		t.Errorf("got ID %s, want %s", got, want)
	}
	other := v1beta1.FederatedIdentity{Issuer: "github", Claims: v1beta1.ClaimMatch{"sub": "repo:acme/shop"}}
	if identity.ID() == other.ID() {
		t.Errorf("different identities have the same ID %s", identity.ID())
	}
}
