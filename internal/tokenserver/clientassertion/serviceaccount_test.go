package clientassertion_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

const cluster = "https://kubernetes.default.svc.cluster.local"

// projected returns the claims of a Pod's token as issued by the API server, with the given
// changes.
func projected(change members) members {
	claims := members{
		"iss": cluster, "sub": "system:serviceaccount:apps:billing", "aud": []string{issuer}, "jti": "4a7",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": members{
			"namespace":      "apps",
			"node":           members{"name": "one", "uid": "n1"},
			"pod":            members{"name": "billing-7d4", "uid": "p1"},
			"serviceaccount": members{"name": "billing", "uid": "s1"},
		},
	}
	maps.Copy(claims, change)
	return claims
}

// kubernetes returns the kubernetes.io claim with the given changes to its members.
func kubernetes(change members) members {
	claim, _ := projected(nil)["kubernetes.io"].(members)
	maps.Copy(claim, change)
	return members{"kubernetes.io": claim}
}

func TestCheckServiceAccount(t *testing.T) {
	key := keys()[signingkey.RS256]
	at := func(d time.Duration) int64 { return now.Truncate(time.Second).Add(d).Unix() }
	for name, tc := range map[string]struct {
		claims  members
		wantErr error
	}{
		"valid":                         {claims: projected(nil)},
		"expires in a day, clock ahead": {claims: projected(members{"exp": at(24*time.Hour + 30*time.Second)})},
		"other issuer":                  {claims: projected(members{"iss": "https://example.com"}), wantErr: clientassertion.ErrIssuer},
		"legacy issuer":                 {claims: projected(members{"iss": "kubernetes/serviceaccount"}), wantErr: clientassertion.ErrIssuer},
		"no issuer":                     {claims: projected(members{"iss": nil}), wantErr: clientassertion.ErrIssuer},
		"other account":                 {claims: projected(members{"sub": "system:serviceaccount:apps:other"}), wantErr: clientassertion.ErrSubject},
		"other namespace":               {claims: projected(kubernetes(members{"namespace": "other"})), wantErr: clientassertion.ErrSubject},
		"no namespace":                  {claims: projected(kubernetes(members{"namespace": nil})), wantErr: clientassertion.ErrSubject},
		"no account":                    {claims: projected(kubernetes(members{"serviceaccount": nil})), wantErr: clientassertion.ErrSubject},
		"account without UID":           {claims: projected(kubernetes(members{"serviceaccount": members{"name": "billing"}})), wantErr: clientassertion.ErrSubject},
		"no Kubernetes claim":           {claims: projected(members{"kubernetes.io": nil}), wantErr: clientassertion.ErrSubject},
		"malformed Kubernetes claim":    {claims: projected(members{"kubernetes.io": "canary"}), wantErr: jws.ErrMalformed},
		"default account": {
			claims:  projected(members{"sub": "system:serviceaccount:apps:default", "kubernetes.io": kubernetes(members{"serviceaccount": members{"name": "default", "uid": "s2"}})["kubernetes.io"]}),
			wantErr: clientassertion.ErrDefaultAccount,
		},
		"not bound":                  {claims: projected(kubernetes(members{"pod": nil})), wantErr: clientassertion.ErrNotBound},
		"bound to a pod without UID": {claims: projected(kubernetes(members{"pod": members{"name": "billing-7d4"}})), wantErr: clientassertion.ErrNotBound},
		"bound to a Secret":          {claims: projected(kubernetes(members{"pod": nil, "secret": members{"name": "x", "uid": "y"}})), wantErr: clientassertion.ErrNotBound},
		"audience is API server":     {claims: projected(members{"aud": []string{cluster}}), wantErr: clientassertion.ErrAudience},
		"second audience":            {claims: projected(members{"aud": []string{issuer, cluster}}), wantErr: clientassertion.ErrAudience},
		"audience is token endpoint": {claims: projected(members{"aud": []string{endpoint}}), wantErr: clientassertion.ErrAudience},
		"no audience":                {claims: projected(members{"aud": nil}), wantErr: clientassertion.ErrAudience},
		"expired":                    {claims: projected(members{"exp": at(0)}), wantErr: clientassertion.ErrExpired},
		"no exp":                     {claims: projected(members{"exp": nil}), wantErr: clientassertion.ErrNoExpiry},
		"expires in over a day":      {claims: projected(members{"exp": at(24*time.Hour + 31*time.Second)}), wantErr: clientassertion.ErrTooLong},
		"not valid yet":              {claims: projected(members{"nbf": at(31 * time.Second)}), wantErr: clientassertion.ErrNotYetValid},
		"issuer's clock is ahead":    {claims: projected(members{"nbf": at(30 * time.Second), "iat": at(30 * time.Second)})},
	} {
		t.Run(name, func(t *testing.T) {
			a := parse(t, sign(t, key, nil, tc.claims))
			if !a.OfServiceAccount() {
				t.Error("OfServiceAccount is false for a service account token")
			}
			got, err := a.CheckServiceAccount(cluster, issuer, now)
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			want := clientassertion.ServiceAccount{}
			if err == nil {
				want = clientassertion.ServiceAccount{Namespace: "apps", Name: "billing", UID: "s1"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := parse(t, sign(t, key, nil, projected(members{"iss": nil}))).CheckServiceAccount("", issuer, now); !errors.Is(err, clientassertion.ErrIssuer) {
		t.Errorf("without the cluster's issuer: error %v, want %v", err, clientassertion.ErrIssuer)
	}
	if parse(t, sign(t, key, nil, nil)).OfServiceAccount() {
		t.Error("OfServiceAccount is true for a client's own assertion")
	}
}
