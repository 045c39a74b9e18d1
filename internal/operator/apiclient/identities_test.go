package apiclient

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

// githubURL and gitlabURL are the issuers of the Realm in observeFederated.
const (
	githubURL = "https://token.actions.githubusercontent.com"
	gitlabURL = "https://gitlab.example.com"
	shop      = "repo:acme/shop:environment:production"
)

// observeFederated returns the observed state of a client whose only way to authenticate are the given
// identities, in a Realm that trusts two issuers.
func observeFederated(identities []v1beta1.Identity, change ...func(*observed)) observed {
	return observe(append([]func(*observed){func(s *observed) {
		s.realm.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{{Name: "github", Issuer: githubURL}, {Name: "gitlab", Issuer: gitlabURL}}
		s.client.Spec.Secret, s.client.Spec.Identities = nil, identities
	}}, change...)...)
}

func exact(issuer, subject string) v1beta1.Identity {
	return v1beta1.Identity{Name: issuer, Issuer: issuer, Subject: subject}
}

// matching returns an identity that matches a claim a with the value b.
func matching(issuer string) v1beta1.Identity {
	return v1beta1.Identity{Name: issuer + "-claims", Issuer: issuer, MatchClaims: v1beta1.ClaimMatches{{Name: "a", Value: "b"}}}
}

func account(name string) v1beta1.Identity {
	return v1beta1.Identity{Name: name, ServiceAccount: v1beta1.ServiceAccountReference{Name: name}}
}

// The record contains the identities with the URLs of their issuers and the UIDs of service accounts. It
// omits accounts that don't exist.
func TestDecideWithIdentities(t *testing.T) {
	seen := observeFederated([]v1beta1.Identity{
		exact("github", shop), matching("gitlab"), account("missing"), account("robot"),
	}, func(s *observed) { s.accounts = map[string]types.UID{"robot": "1"} })
	d := decided(t, &seen, now)
	want := []record.Identity{
		{ID: "github", Issuer: githubURL, IssuerName: "github", Subject: shop},
		{ID: "gitlab-claims", Issuer: gitlabURL, IssuerName: "gitlab", Claims: map[string]string{"a": "b"}},
		{ID: "robot", ServiceAccount: &record.ServiceAccount{Namespace: "team", Name: "robot", UID: "1"}},
	}
	testkit.Diff(t, "identities", want, d.desired.Identities)
	if _, err := record.ReadClient(reconciled(t, seen).recordSecret); err != nil {
		t.Errorf("token servers cannot read the record: %v", err)
	}
}

func TestAcceptedIdentities(t *testing.T) {
	restrict := func(issuers ...string) func(*observed) {
		return func(s *observed) { s.realm.Spec.Grants[0].Issuers = issuers }
	}
	accounts := func(s *observed) {
		s.client.Spec.Identities = []v1beta1.Identity{account("robot")}
		s.accounts = map[string]types.UID{"robot": "1"}
	}
	for name, test := range map[string]struct {
		identities []v1beta1.Identity
		change     []func(*observed)
		wantReason v1beta1.ConditionReason
		wantWord   string
	}{
		"issuers of the realm":        {[]v1beta1.Identity{exact("github", shop), exact("gitlab", shop)}, nil, v1beta1.ReasonAccepted, ""},
		"unknown issuer":              {[]v1beta1.Identity{exact("github", shop), exact("jenkins", shop)}, nil, v1beta1.ReasonIssuerNotInRealm, "spec.identities: jenkins."},
		"URL instead of name":         {[]v1beta1.Identity{exact(githubURL, shop)}, nil, v1beta1.ReasonIssuerNotInRealm, githubURL},
		"one of two in the grant":     {[]v1beta1.Identity{exact("github", shop), exact("gitlab", shop)}, []func(*observed){restrict("gitlab")}, v1beta1.ReasonNotGranted, `lacks issuer "github"`},
		"service accounts granted":    {nil, []func(*observed){accounts, restrict("kubernetes")}, v1beta1.ReasonAccepted, ""},
		"every issuer":                {[]v1beta1.Identity{exact("github", shop), account("robot")}, []func(*observed){restrict("*")}, v1beta1.ReasonAccepted, ""},
		"no issuer":                   {[]v1beta1.Identity{exact("github", shop)}, []func(*observed){restrict()}, v1beta1.ReasonNotGranted, `lacks issuer "github"`},
		"service accounts restricted": {nil, []func(*observed){accounts, restrict("github")}, v1beta1.ReasonNotGranted, `lacks issuer "kubernetes"`},
		"secret with restricted issuers": {nil, []func(*observed){restrict("github"), func(s *observed) {
			s.client.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
		}}, v1beta1.ReasonAccepted, ""},
		"missing service account":            {[]v1beta1.Identity{account("robot")}, nil, v1beta1.ReasonServiceAccountNotFound, "robot"},
		"missing service account and others": {[]v1beta1.Identity{account("robot"), exact("github", shop)}, nil, v1beta1.ReasonAccepted, "do not exist yet: robot"},
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
	client := func(s *observed) { s.client.Spec.SenderConstraint = v1beta1.SenderConstraintDPoP }
	grant := func(s *observed) { s.realm.Spec.Grants[0].SenderConstraint = v1beta1.SenderConstraintDPoP }
	scoped := func(s *observed) { s.client.Spec.Scopes = v1beta1.Scopes{"read"} }
	more := func(s *observed) {
		s.client.Spec.Scopes = append(s.client.Spec.Scopes, "admin")
		s.realm.Spec.Scopes = append(s.realm.Spec.Scopes, "admin")
		s.realm.Spec.Grants[0].Scopes = v1beta1.GrantedScopes{v1beta1.GrantAll}
	}
	// later adds a second grant, which requires DPoP.
	later := func(scope string, namespaces ...string) func(*observed) {
		return func(s *observed) {
			s.realm.Spec.Grants = append(s.realm.Spec.Grants, v1beta1.Grant{
				Name: "second", Namespaces: v1beta1.GrantedNamespaces{Names: namespaces},
				Scopes: v1beta1.GrantedScopes{scope}, Audiences: v1beta1.GrantedAudiences{v1beta1.GrantAll}, SenderConstraint: v1beta1.SenderConstraintDPoP,
			})
		}
	}
	reversed := func(s *observed) { slices.Reverse(s.realm.Spec.Grants) }
	for name, test := range map[string]struct {
		change []func(*observed)
		want   bool
	}{
		"client":                              {[]func(*observed){client}, true},
		"grant":                               {[]func(*observed){grant}, true},
		"a later grant that covers":           {[]func(*observed){scoped, later("read", "team")}, true},
		"an earlier grant that covers":        {[]func(*observed){scoped, later("read", "team"), reversed}, true},
		"a later grant with one scope of two": {[]func(*observed){scoped, later("read", "team"), more}, true},
		"a later grant without the scope":     {[]func(*observed){scoped, later("write", "team")}, false},
		"a later grant without the namespace": {[]func(*observed){scoped, later("read", "other")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if d := decided(t, new(observe(test.change...)), now); d.desired.DPoP != test.want {
				t.Errorf("DPoP required: %t, want %t", d.desired.DPoP, test.want)
			}
		})
	}
}

// withAccounts makes the given accounts the only way in which the client authenticates. Accounts with
// a UID exist.
func withAccounts(uids map[string]types.UID, names ...string) func(*observed) {
	return func(seen *observed) {
		seen.accounts, seen.client.Spec.Secret = uids, nil
		for _, name := range names {
			seen.client.Spec.Identities = append(seen.client.Spec.Identities, account(name))
		}
	}
}

// A client is not Accepted, and its record is disabled, if none of its service accounts exists and
// it has no other way to authenticate.
func TestMissingServiceAccounts(t *testing.T) {
	if got := accepted(new(observe(withAccounts(nil, "b", "a")))); got.Reason != v1beta1.ReasonServiceAccountNotFound {
		t.Errorf("without other credentials: %s: %s", got.Reason, got.Message)
	}
	for name, other := range map[string]func(*observed){
		"a public key": withKeys(onP256),
		"a secret": func(s *observed) {
			s.client.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
		},
		"another account": func(s *observed) {
			s.accounts = map[string]types.UID{"c": "1"}
			s.client.Spec.Identities = append(s.client.Spec.Identities, account("c"))
		},
	} {
		got := accepted(new(observe(withAccounts(nil, "b", "a"), other)))
		if got.Reason != v1beta1.ReasonAccepted || !strings.HasSuffix(got.Message, " These service accounts do not exist yet: a, b.") {
			t.Errorf("with %s: %s: %s", name, got.Reason, got.Message)
		}
	}
	seen := reconciled(t, observe(withAccounts(map[string]types.UID{"a": "1"}, "a")))
	seen.accounts = nil
	if d := decided(t, &seen, now); !d.desired.Disabled {
		t.Errorf("after the last account is deleted: record %+v", d.desired)
	}
}

// These are the public keys from RFC 7517 (appendix A.1), as PEM, and RFC 8037 (appendix A.2).
var (
	onP256 = v1beta1.PublicKey{KeyID: "b", PEM: `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMKBCTNIcKUSDii11ySs3526iDZ8A
iTo7Tu6KPAqv7D7gS2XpJFbZiItSs3m9+9Ue6GnvHw/GW2ZZaVtszggXIw==
-----END PUBLIC KEY-----
`}
	onEd25519 = v1beta1.PublicKey{KeyID: "a", JWK: `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`}
)

// withKeys makes the given keys the only way in which the client authenticates.
func withKeys(keys ...v1beta1.PublicKey) func(*observed) {
	return func(seen *observed) { seen.client.Spec.Secret, seen.client.Spec.PublicKeys = nil, keys }
}

// The record of a client with public keys contains them, sorted, and no secret.
func TestDecideWithPublicKeys(t *testing.T) {
	d := decided(t, new(observe(withKeys(onP256, onEd25519), func(s *observed) { s.caBundle, s.caMissing = nil, true })), now)
	if d.blocked != nil || d.credentials != nil || len(d.desired.Secrets) != 0 {
		t.Errorf("blocked %v, credentials Secret %v, record %+v", d.blocked, d.credentials, d.desired)
	}
	var got []string
	for _, key := range d.desired.PublicKeys {
		got = append(got, key.ID()+" "+string(key.Algorithm()))
	}
	testkit.Diff(t, "keys", []string{"a EdDSA", "b ES256"}, got)
	acknowledged := acknowledgement.Acknowledged
	s := status(new(observe(withKeys(onP256))), d, outcome{written: true, state: &acknowledged})
	if s.SecretName != "" || len(s.Secrets()) != 0 {
		t.Errorf("status with Secret %q and secrets %v", s.SecretName, s.Secrets())
	}
}

// The message names the key and the reason, and never repeats the key.
func TestInvalidPublicKeysAreRejected(t *testing.T) {
	ed25519 := func(members string) v1beta1.JSONWebKey {
		return v1beta1.JSONWebKey(`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"` + members + `}`)
	}
	const rsa = `{"kty":"RSA","e":"AQAB","n":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}`
	for name, tc := range map[string]struct {
		key         v1beta1.PublicKey
		wantMessage string
	}{
		"too short":               {v1beta1.PublicKey{JWK: rsa, Algorithm: v1beta1.SigningAlgorithmRS256}, "RSA key of 2048 to 4096 bits"},
		"for encryption":          {v1beta1.PublicKey{JWK: ed25519(`,"use":"enc"`)}, "its use is not sig"},
		"private, with an escape": {v1beta1.PublicKey{JWK: ed25519(`,"\u0064":"canary"`)}, "is a private key. Treat it as compromised"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.key.KeyID = "c"
			got := accepted(new(observe(withKeys(onEd25519, tc.key))))
			if got.Status != metav1.ConditionFalse || got.Reason != v1beta1.ReasonPublicKeyNotSupported || !strings.Contains(got.Message, `"c"`) || !strings.Contains(got.Message, tc.wantMessage) {
				t.Errorf("%+v, want one with %q", got, tc.wantMessage)
			}
			if strings.Contains(got.Message, "canary") {
				t.Errorf("the message repeats the private key: %s", got.Message)
			}
		})
	}
}
