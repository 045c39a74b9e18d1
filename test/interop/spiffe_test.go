package interop_test

import (
	"context"
	"crypto"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// trustDomain is a SPIFFE trust domain with one key that signs JWT-SVIDs.
type trustDomain struct {
	domain spiffeid.TrustDomain
	bundle *spiffebundle.Bundle
	signer crypto.Signer
}

func newTrustDomain(t *testing.T) *trustDomain {
	t.Helper()
	d := &trustDomain{domain: spiffeid.RequireTrustDomainFromString("example.org"), signer: ecdsaKey(t)}
	d.bundle = spiffebundle.New(d.domain)
	if err := d.bundle.AddJWTAuthority("authority-1", d.signer.Public()); err != nil {
		t.Fatal(err)
	}
	d.bundle.SetSequenceNumber(1)
	d.bundle.SetRefreshHint(time.Minute)
	return d
}

// keySets returns the key sets in which go-spiffe publishes the keys. The bundle of the trust domain
// also says what each key is for; the bundle of JWT keys doesn't.
func (d *trustDomain) keySets(t *testing.T) map[string][]byte {
	t.Helper()
	complete, err := d.bundle.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := jwtbundle.FromJWTAuthorities(d.domain, d.bundle.JWTAuthorities()).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"spiffe-bundle": complete, "jwt-bundle": keys}
}

// svid returns a JWT-SVID. go-spiffe can't create one, but it verifies it if valid is true.
func (d *trustDomain) svid(t *testing.T, id spiffeid.ID, issuer string, valid bool, audiences ...string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: d.signer, KeyID: "authority-1"}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: issuer, Subject: id.String(), Audience: audiences,
		IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(5 * time.Minute)),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	svid, err := jwtsvid.ParseAndValidate(token, d.bundle, audiences)
	if (err == nil) != valid {
		t.Fatalf("go-spiffe returns %v for the SVID of %s, want valid=%t", err, id, valid)
	}
	if err != nil {
		return token
	}
	return svid.Marshal()
}

// testSPIFFE checks that workloads get tokens with JWT-SVIDs that go-spiffe considers valid.
func testSPIFFE(t *testing.T, i *installation) {
	d := newTrustDomain(t)
	workload, other := spiffeid.RequireFromPath(d.domain, "/billing"), spiffeid.RequireFromPath(d.domain, "/other")
	stranger := spiffeid.RequireFromString("spiffe://example.net/billing")
	for name, keys := range d.keySets(t) {
		t.Run(name, func(t *testing.T) {
			c := i.createFederated(t, name, v1beta1.TrustedIssuer{
				Name: "example-org", Issuer: v1beta1.IssuerURL(d.domain.IDString()), Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(keys)},
			}, workload.String(), stranger.String())
			realm := i.realmIssuer(t, name)
			for name, tc := range map[string]struct {
				token string
				// accepted is for jwt-bearer, and acceptedSVID for jwt-spiffe.
				accepted, acceptedSVID bool
			}{
				"without issuer":               {d.svid(t, workload, "", true, realm), true, true},
				"trust domain as issuer":       {d.svid(t, workload, d.domain.IDString(), true, realm), true, true},
				"URL as issuer":                {d.svid(t, workload, "https://oidc.example.org", true, realm), false, true},
				"unlisted workload":            {d.svid(t, other, "", true, realm), false, false},
				"other audience":               {d.svid(t, workload, "", true, audience), false, false},
				"additional audience":          {d.svid(t, workload, "", true, realm, audience), false, false},
				"other trust domain":           {d.svid(t, stranger, "", false, realm), false, false},
				"issuer of other trust domain": {d.svid(t, stranger, d.domain.IDString(), false, realm), false, false},
			} {
				t.Run(name, func(t *testing.T) {
					i.wantPresented(t, c, tc.token, tc.accepted)
					i.wantPresentedSVID(t, c, tc.token, tc.acceptedSVID)
				})
			}
		})
	}
	t.Run("issuer with a URL", func(t *testing.T) {
		const issuer = "https://oidc.example.org"
		keys := d.keySets(t)["spiffe-bundle"]
		c := i.createFederated(t, "oidc", v1beta1.TrustedIssuer{
			Name: "example-org", Issuer: issuer, Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(keys)},
		}, workload.String())
		realm := i.realmIssuer(t, "oidc")
		i.wantPresented(t, c, d.svid(t, workload, issuer, true, realm), true)
		i.wantPresented(t, c, d.svid(t, workload, "", true, realm), false)
		i.wantPresentedSVID(t, c, d.svid(t, workload, issuer, true, realm), false)
	})
}

// createFederated creates a realm with a trusted issuer, and a client with the subjects, both with
// the given name.
func (i *installation) createFederated(t *testing.T, name string, issuer v1beta1.TrustedIssuer, subjects ...string) *v1beta1.ApiClient {
	t.Helper()
	realm := install.Realm(name, func(r *v1beta1.Realm) {
		r.Spec.Scopes, r.Spec.TrustedIssuers = []string{scope}, []v1beta1.TrustedIssuer{issuer}
	})
	c := install.ApiClient(i.client.Namespace, name, name, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes = []string{scope}
		c.Spec.Identities = install.Subjects(issuer.Name, subjects...)
	})
	i.inst.Create(t, realm, c)
	i.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	return c
}

// realmIssuer returns the issuer of the realm with the given name.
func (i *installation) realmIssuer(t *testing.T, name string) string {
	t.Helper()
	realm := install.Realm(name)
	i.inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	return realm.Status.Issuer
}

// wantPresented presents a token in both ways, with and without the client ID.
func (i *installation) wantPresented(t *testing.T, c *v1beta1.ApiClient, token string, accepted bool) {
	t.Helper()
	for name, request := range map[string]func(testing.TB, *install.TokenServer, *http.Client, string, string, string) (install.TokenResponse, error){
		"client_assertion": install.RequestTokenByAssertion, "jwt-bearer": install.RequestTokenByGrant,
	} {
		for _, id := range []string{c.Status.ClientID, ""} {
			got, err := request(t, i.server, i.server.Client(t), c.Status.TokenEndpoint, id, token)
			if err != nil || (got.Status == http.StatusOK) != accepted {
				t.Errorf("%s with the client ID %q: %+v, %v, want accepted=%t", name, id, got, err, accepted)
			}
		}
	}
}

// wantPresentedSVID presents a JWT-SVID with the assertion type jwt-spiffe in x/oauth2, with and without
// the client ID.
func (i *installation) wantPresentedSVID(t *testing.T, c *v1beta1.ApiClient, svid string, accepted bool) {
	t.Helper()
	for _, id := range []string{c.Status.ClientID, ""} {
		config := clientcredentials.Config{
			ClientID: id, TokenURL: c.Status.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams,
			EndpointParams: url.Values{
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"}, "client_assertion": {svid},
			},
		}
		token, err := config.Token(context.WithValue(t.Context(), oauth2.HTTPClient, i.httpClient(t)))
		if (err == nil) != accepted {
			t.Errorf("jwt-spiffe with the client ID %q: %v, %v, want accepted=%t", id, token, err, accepted)
		}
	}
}
