package apiclient

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// githubURL and gitlabURL are the issuers of the Realm in observeFederated.
const (
	githubURL = "https://token.actions.githubusercontent.com"
	gitlabURL = "https://gitlab.example.com"
	shop      = "repo:acme/shop:environment:production"
)

// observeFederated returns the observed state of a client whose only way to authenticate are the given
// identities, in a Realm that trusts two issuers.
func observeFederated(identities []v1alpha1.FederatedIdentity, change ...func(*observed)) observed {
	return observe(append([]func(*observed){func(s *observed) {
		s.realm.Spec.TrustedIssuers = []v1alpha1.TrustedIssuer{{Name: "github", Issuer: githubURL}, {Name: "gitlab", Issuer: gitlabURL}}
		s.client.Spec.Secret, s.client.Spec.FederatedIdentities = nil, identities
	}}, change...)...)
}

func exact(issuer, subject string) v1alpha1.FederatedIdentity {
	return v1alpha1.FederatedIdentity{Issuer: issuer, Subject: subject}
}

func matching(issuer string, claims v1alpha1.ClaimMatch) v1alpha1.FederatedIdentity {
	return v1alpha1.FederatedIdentity{Issuer: issuer, Claims: claims}
}

// The record contains the identities with the URLs of their issuers. Those of the cluster are service
// accounts with their UIDs.
func TestDecideWithFederatedIdentities(t *testing.T) {
	seen := observeFederated([]v1alpha1.FederatedIdentity{
		exact("github", shop), matching("gitlab", v1alpha1.ClaimMatch{"project_path": "acme/shop"}),
		exact("kubernetes", "system:serviceaccount:team:robot"),
	}, func(s *observed) { s.accounts = map[string]types.UID{"robot": "1"} })
	d, err := decide(&seen, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Identity{
		{ID: exact("github", shop).ID(), Issuer: githubURL, IssuerName: "github", Subject: shop},
		{ID: matching("gitlab", v1alpha1.ClaimMatch{"project_path": "acme/shop"}).ID(), Issuer: gitlabURL, IssuerName: "gitlab", Claims: map[string]string{"project_path": "acme/shop"}},
	}
	testkit.Diff(t, "identities", want, d.record.Identities)
	testkit.Diff(t, "service accounts", []record.ServiceAccount{{Namespace: "team", Name: "robot", UID: "1"}}, d.record.ServiceAccounts)
	if _, err := record.ReadClient(reconciled(t, seen).record); err != nil {
		t.Errorf("token servers cannot read the record: %v", err)
	}

	acknowledged := acknowledgement.Acknowledged
	seen = observeFederated([]v1alpha1.FederatedIdentity{exact("github", shop)})
	if d, err = decide(&seen, now, rand.Reader); err != nil {
		t.Fatal(err)
	}
	seen.realm.Status.Conditions = []metav1.Condition{{Type: string(v1alpha1.ConditionReady), Status: metav1.ConditionTrue}}
	got := status(&seen, d, applied{recorded: true, state: &acknowledged}, now)
	if i := slices.IndexFunc(got.Conditions, func(c metav1.Condition) bool { return c.Type == string(v1alpha1.ConditionReady) }); got.Conditions[i].Status != metav1.ConditionTrue {
		t.Errorf("a client with federated identities only is not Ready: %s", got.Conditions[i].Message)
	}
}

func TestAcceptedIdentities(t *testing.T) {
	restrict := func(issuers ...string) func(*observed) {
		return func(s *observed) { s.realm.Spec.Grants[0].Issuers = issuers }
	}
	accounts := func(s *observed) {
		s.client.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: "robot"}}
		s.accounts = map[string]types.UID{"robot": "1"}
	}
	local := "system:serviceaccount:team:"
	for name, test := range map[string]struct {
		identities []v1alpha1.FederatedIdentity
		change     []func(*observed)
		wantReason v1alpha1.ConditionReason
		wantWord   string
	}{
		"issuers of the realm": {[]v1alpha1.FederatedIdentity{exact("github", shop), exact("gitlab", shop)}, nil, v1alpha1.ReasonAccepted, ""},
		"unknown issuer":       {[]v1alpha1.FederatedIdentity{exact("github", shop), exact("jenkins", shop)}, nil, v1alpha1.ReasonIssuerNotInRealm, "spec.federatedIdentities: jenkins."},
		"URL instead of name":  {[]v1alpha1.FederatedIdentity{exact(githubURL, shop)}, nil, v1alpha1.ReasonIssuerNotInRealm, githubURL},
		"no trusted issuers": {
			[]v1alpha1.FederatedIdentity{exact("github", shop)},
			[]func(*observed){func(s *observed) { s.realm.Spec.TrustedIssuers = nil }},
			v1alpha1.ReasonIssuerNotInRealm, "github",
		},
		"issuer in the grant":         {[]v1alpha1.FederatedIdentity{exact("github", shop)}, []func(*observed){restrict("github")}, v1alpha1.ReasonAccepted, ""},
		"issuer not in the grant":     {[]v1alpha1.FederatedIdentity{exact("github", shop)}, []func(*observed){restrict("gitlab")}, v1alpha1.ReasonNotGranted, `lacks issuer "github"`},
		"one of two in the grant":     {[]v1alpha1.FederatedIdentity{exact("github", shop), exact("gitlab", shop)}, []func(*observed){restrict("gitlab")}, v1alpha1.ReasonNotGranted, `lacks issuer "github"`},
		"service accounts granted":    {nil, []func(*observed){accounts, restrict("kubernetes")}, v1alpha1.ReasonAccepted, ""},
		"service accounts restricted": {nil, []func(*observed){accounts, restrict("github")}, v1alpha1.ReasonNotGranted, `lacks issuer "kubernetes"`},
		"secret with restricted issuers": {nil, []func(*observed){restrict("github"), func(s *observed) {
			s.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{}}
		}}, v1alpha1.ReasonAccepted, ""},
		"missing service account":            {[]v1alpha1.FederatedIdentity{exact("kubernetes", local+"robot")}, nil, v1alpha1.ReasonServiceAccountNotFound, "robot"},
		"missing service account and others": {[]v1alpha1.FederatedIdentity{exact("kubernetes", local+"robot"), exact("github", shop)}, nil, v1alpha1.ReasonAccepted, "do not exist yet: robot"},
		"account of another namespace":       {[]v1alpha1.FederatedIdentity{exact("kubernetes", "system:serviceaccount:other:robot")}, nil, v1alpha1.ReasonFederatedIdentityNotSupported, `"system:serviceaccount:team:"`},
		"namespace with the same prefix":     {[]v1alpha1.FederatedIdentity{exact("kubernetes", "system:serviceaccount:team-b:robot")}, nil, v1alpha1.ReasonFederatedIdentityNotSupported, "team-b"},
		"account default":                    {[]v1alpha1.FederatedIdentity{exact("kubernetes", local+"default")}, nil, v1alpha1.ReasonFederatedIdentityNotSupported, "default"},
		"account without a name":             {[]v1alpha1.FederatedIdentity{exact("kubernetes", local)}, nil, v1alpha1.ReasonFederatedIdentityNotSupported, local},
		"account with a colon":               {[]v1alpha1.FederatedIdentity{exact("kubernetes", local+"robot:x")}, nil, v1alpha1.ReasonFederatedIdentityNotSupported, "robot:x"},
		"cluster by claims":                  {[]v1alpha1.FederatedIdentity{matching("kubernetes", v1alpha1.ClaimMatch{"a": "b"})}, nil, v1alpha1.ReasonFederatedIdentityNotSupported, "kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(observeFederated(test.identities, test.change...)))
			if got.Reason != test.wantReason || !strings.Contains(got.Message, test.wantWord) {
				t.Errorf("%s: %s; want %s and %q", got.Reason, got.Message, test.wantReason, test.wantWord)
			}
		})
	}
}

// The client or any grant for one of its scopes requires DPoP, whatever the order of the grants is.
func TestDecideSenderConstraint(t *testing.T) {
	client := func(s *observed) { s.client.Spec.SenderConstraint = v1alpha1.SenderConstraintDPoP }
	grant := func(s *observed) { s.realm.Spec.Grants[0].SenderConstraint = v1alpha1.SenderConstraintDPoP }
	scoped := func(s *observed) { s.client.Spec.Scopes = v1alpha1.Scopes{"read"} }
	more := func(s *observed) {
		s.client.Spec.Scopes = append(s.client.Spec.Scopes, "admin")
		s.realm.Spec.Scopes = append(s.realm.Spec.Scopes, "admin")
		s.realm.Spec.Grants[0].Scopes = v1alpha1.Scopes{v1alpha1.AllScopes}
	}
	// later adds a second grant, which requires DPoP.
	later := func(scope string, namespaces ...string) func(*observed) {
		return func(s *observed) {
			s.realm.Spec.Grants = append(s.realm.Spec.Grants, v1alpha1.Grant{
				Name: "second", Namespaces: v1alpha1.GrantedNamespaces{Names: namespaces},
				Scopes: v1alpha1.Scopes{scope}, SenderConstraint: v1alpha1.SenderConstraintDPoP,
			})
		}
	}
	reversed := func(s *observed) { slices.Reverse(s.realm.Spec.Grants) }
	for name, test := range map[string]struct {
		change []func(*observed)
		want   bool
	}{
		"neither":                             {nil, false},
		"client":                              {[]func(*observed){client}, true},
		"grant":                               {[]func(*observed){grant}, true},
		"both":                                {[]func(*observed){client, grant}, true},
		"a later grant that covers":           {[]func(*observed){scoped, later("read", "team")}, true},
		"an earlier grant that covers":        {[]func(*observed){scoped, later("read", "team"), reversed}, true},
		"a later grant with one scope of two": {[]func(*observed){scoped, later("read", "team"), more}, true},
		"a later grant without the scope":     {[]func(*observed){scoped, later("write", "team")}, false},
		"a later grant without the namespace": {[]func(*observed){scoped, later("read", "other")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := decide(new(observe(test.change...)), now, rand.Reader)
			if err != nil || d.record.DPoP != test.want {
				t.Errorf("DPoP required: %t, want %t; error %v", d.record.DPoP, test.want, err)
			}
		})
	}
}
