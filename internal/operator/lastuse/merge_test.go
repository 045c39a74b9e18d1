package lastuse_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

func hour(h int) time.Time { return time.Date(2026, 3, 1, h, 0, 0, 0, time.UTC) }

func used(h int) *metav1.Time { return new(metav1.NewTime(hour(h))) }

var github = v1alpha1.FederatedIdentity{Issuer: "github", Subject: "repo:acme/shop"}

// fullClient returns a client with credentials of each type, which was used at 10:00.
func fullClient() *v1alpha1.ApiClient {
	return &v1alpha1.ApiClient{
		Spec: v1alpha1.ApiClientSpec{
			PublicKeys:      []v1alpha1.PublicKey{{KeyID: "2026-01"}, {KeyID: "2026-02"}},
			ServiceAccounts: []v1alpha1.ServiceAccountReference{{Name: "billing"}},
			FederatedIdentities: []v1alpha1.FederatedIdentity{
				github, {Issuer: v1alpha1.IssuerKubernetes, Subject: "system:serviceaccount:default:reports"},
			},
		},
		Status: v1alpha1.ApiClientStatus{
			LastUsedTime: used(10),
			Secrets:      []v1alpha1.ClientSecretStatus{{ID: "s1", LastUsedTime: used(10)}, {ID: "s2"}},
			Credentials:  []v1alpha1.CredentialStatus{{Type: v1alpha1.CredentialTypePublicKey, ID: "2026-02", LastUsedTime: *used(9)}},
		},
	}
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		uses lastuse.Uses
		want func(*v1alpha1.ApiClientStatus)
	}{
		"nothing":        {nil, func(*v1alpha1.ApiClientStatus) {}},
		"an earlier use": {lastuse.Uses{secret("s1"): hour(8), {Type: usage.PublicKey, ID: "2026-02"}: hour(8)}, func(*v1alpha1.ApiClientStatus) {}},
		"a later use": {lastuse.Uses{secret("s1"): hour(11)}, func(s *v1alpha1.ApiClientStatus) {
			s.LastUsedTime, s.Secrets[0].LastUsedTime = used(11), used(11)
		}},
		"the first use of a secret": {lastuse.Uses{secret("s2"): hour(9)}, func(s *v1alpha1.ApiClientStatus) { s.Secrets[1].LastUsedTime = used(9) }},
		"a credential that was removed": {lastuse.Uses{secret("gone"): hour(12), {Type: usage.PublicKey, ID: "gone"}: hour(11)}, func(s *v1alpha1.ApiClientStatus) {
			s.LastUsedTime = used(12)
		}},
		"other credentials": {lastuse.Uses{
			{Type: usage.ServiceAccount, ID: "reports"}:         hour(7),
			{Type: usage.ServiceAccount, ID: "billing"}:         hour(6),
			{Type: usage.FederatedIdentity, ID: github.ID()}:    hour(5),
			{Type: usage.PublicKey, ID: "2026-02"}:              hour(11),
			{Type: usage.FederatedIdentity, ID: "github-other"}: hour(4),
		}, func(s *v1alpha1.ApiClientStatus) {
			s.LastUsedTime = used(11)
			s.Credentials = []v1alpha1.CredentialStatus{
				{Type: v1alpha1.CredentialTypeFederatedIdentity, ID: github.ID(), LastUsedTime: *used(5)},
				{Type: v1alpha1.CredentialTypePublicKey, ID: "2026-02", LastUsedTime: *used(11)},
				{Type: v1alpha1.CredentialTypeServiceAccount, ID: "billing", LastUsedTime: *used(6)},
				{Type: v1alpha1.CredentialTypeServiceAccount, ID: "reports", LastUsedTime: *used(7)},
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cached, want := fullClient(), fullClient().Status
			c.want(&want)
			got := cached.Status
			lastuse.Merge(&cached.Spec, &got, c.uses)
			testkit.Diff(t, "status", want, got)
			testkit.Diff(t, "the cached object was changed", fullClient(), cached)
		})
	}
}

func TestKeepDropsRemovedCredentials(t *testing.T) {
	c := fullClient()
	c.Status.Credentials = append(c.Status.Credentials, v1alpha1.CredentialStatus{Type: v1alpha1.CredentialTypePublicKey, ID: "gone", LastUsedTime: *used(10)})
	next := v1alpha1.ApiClientStatus{Secrets: []v1alpha1.ClientSecretStatus{{ID: "s0"}, {ID: "s1"}}}
	lastuse.Keep(&c.Spec, &c.Status, &next)
	want := v1alpha1.ApiClientStatus{
		LastUsedTime: used(10),
		Secrets:      []v1alpha1.ClientSecretStatus{{ID: "s0"}, {ID: "s1", LastUsedTime: used(10)}},
		Credentials:  []v1alpha1.CredentialStatus{{Type: v1alpha1.CredentialTypePublicKey, ID: "2026-02", LastUsedTime: *used(9)}},
	}
	testkit.Diff(t, "status", want, next)
}
