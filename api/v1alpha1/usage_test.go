package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

func TestCredentialUses(t *testing.T) {
	created := metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rotated, used := metav1.NewTime(created.Add(48*time.Hour)), metav1.NewTime(created.Add(72*time.Hour))
	job := v1alpha1.FederatedIdentity{Issuer: "github", Subject: "repo:acme/shop"}
	group := v1alpha1.FederatedIdentity{Issuer: "gitlab", Claims: v1alpha1.ClaimMatch{"ref": "main", "project": "7"}}
	c := &v1alpha1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created},
		Spec: v1alpha1.ApiClientSpec{
			PublicKeys:      []v1alpha1.PublicKey{{KeyID: "2026-03"}},
			ServiceAccounts: []v1alpha1.ServiceAccountReference{{Name: "shop"}},
			FederatedIdentities: []v1alpha1.FederatedIdentity{
				job, group,
				{Issuer: v1alpha1.IssuerKubernetes, Subject: "system:serviceaccount:acme-apps:shop"},
				{Issuer: v1alpha1.IssuerKubernetes, Subject: "system:serviceaccount:acme-apps:jobs"},
			},
		},
		Status: v1alpha1.ApiClientStatus{
			Secrets: []v1alpha1.ClientSecretStatus{{ID: "old", CreatedAt: created, ExpiresAt: &used, LastUsedTime: &used}, {ID: "new", CreatedAt: rotated}},
			Credentials: []v1alpha1.CredentialStatus{
				{Type: v1alpha1.CredentialTypeServiceAccount, ID: "jobs", LastUsedTime: used},
				{Type: v1alpha1.CredentialTypeFederatedIdentity, ID: job.ID(), LastUsedTime: used},
				{Type: v1alpha1.CredentialTypePublicKey, ID: "removed", LastUsedTime: used},
			},
		},
	}
	want := []v1alpha1.CredentialUse{
		{Type: v1alpha1.CredentialTypeSecret, ID: "old", Name: "old", CreatedAt: created.Time, LastUsed: used.Time, ExpiresAt: used.Time},
		{Type: v1alpha1.CredentialTypeSecret, ID: "new", Name: "new", CreatedAt: rotated.Time},
		{Type: v1alpha1.CredentialTypePublicKey, ID: "2026-03", Name: "2026-03", CreatedAt: created.Time},
		{Type: v1alpha1.CredentialTypeServiceAccount, ID: "shop", Name: "shop", CreatedAt: created.Time},
		{Type: v1alpha1.CredentialTypeFederatedIdentity, ID: job.ID(), Name: "github repo:acme/shop", CreatedAt: created.Time, LastUsed: used.Time},
		{Type: v1alpha1.CredentialTypeFederatedIdentity, ID: group.ID(), Name: "gitlab project=7 ref=main", CreatedAt: created.Time},
		{Type: v1alpha1.CredentialTypeServiceAccount, ID: "jobs", Name: "jobs", CreatedAt: created.Time, LastUsed: used.Time},
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
	identity := v1alpha1.FederatedIdentity{Issuer: "github", Subject: "repo:acme/shop"}
	if got, want := identity.ID(), "github-e957753d6711"; got != want {
		t.Errorf("got ID %s, want %s", got, want)
	}
	other := v1alpha1.FederatedIdentity{Issuer: "github", Claims: v1alpha1.ClaimMatch{"sub": "repo:acme/shop"}}
	if identity.ID() == other.ID() {
		t.Errorf("different identities have the same ID %s", identity.ID())
	}
}
