package apiclient

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// claiming returns the observed state of a client with claims in a Realm that allows the claims
// "tenant" and "plan".
func claiming(realm, client v1alpha1.Claims) observed {
	return observe(func(s *observed) {
		s.realm.Spec.AllowedClaims = []v1alpha1.ClaimName{"tenant", "plan"}
		s.realm.Spec.Claims, s.client.Spec.Claims = realm, client
	})
}

func textClaim(name v1alpha1.ClaimName, value string) v1alpha1.Claims {
	return v1alpha1.Claims{{Name: name, String: value}}
}

func TestClaimPolicies(t *testing.T) {
	long := strings.Repeat("ä", 500) // within the API server's limit of characters
	for name, test := range map[string]struct {
		realm, client v1alpha1.Claims
		wantReason    v1alpha1.ConditionReason
		wantWord      string
	}{
		"none":                     {nil, nil, v1alpha1.ReasonAccepted, ""},
		"allowed":                  {textClaim("tier", "gold"), textClaim("tenant", "acme"), v1alpha1.ReasonAccepted, ""},
		"not allowed":              {nil, textClaim("region", "eu"), v1alpha1.ReasonClaimNotInRealm, "region"},
		"allowed in another case":  {nil, textClaim("Tenant", "acme"), v1alpha1.ReasonClaimNotInRealm, "Tenant"},
		"set by the realm":         {textClaim("tier", "gold"), textClaim("tier", "free"), v1alpha1.ReasonClaimNotInRealm, "itself"},
		"set by the realm, case":   {textClaim("tier", "gold"), textClaim("TIER", "free"), v1alpha1.ReasonClaimNotInRealm, "itself"},
		"reserved since an update": {textClaim("status", "gold"), nil, v1alpha1.ReasonAccepted, "reserved names: status."},
		"realm alone at the limit": {append(textClaim("a", long), textClaim("b", long)...), nil, v1alpha1.ReasonAccepted, ""},
		"too large together":       {append(textClaim("a", long), textClaim("b", long)...), textClaim("plan", strings.Repeat("a", 64)), v1alpha1.ReasonClaimsTooLarge, "2088 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(claiming(test.realm, test.client)))
			if got.Reason != test.wantReason || !strings.Contains(got.Message, test.wantWord) {
				t.Errorf("got %s %q, want %s with %q", got.Reason, got.Message, test.wantReason, test.wantWord)
			}
		})
	}
}

func TestDecideRecordsClaims(t *testing.T) {
	d, err := decide(new(claiming(textClaim("tier", "gold"), textClaim("tenant", "acme"))), now, rand.Reader)
	if err != nil || d.record == nil {
		t.Fatalf("decision %+v, error %v", d, err)
	}
	testkit.Diff(t, "claims", `,"tenant":"acme","tier":"gold"`, string(record.EncodeClaims(d.record.Claims)))
}

// A client whose claims its Realm no longer allows gets no tokens, with or without them.
func TestDecideDisablesClientWithRemovedClaim(t *testing.T) {
	seen := reconciled(t, claiming(nil, textClaim("tenant", "acme")))
	seen.realm.Spec.AllowedClaims = nil
	d, err := decide(&seen, now, rand.Reader)
	if err != nil || d.record == nil || !d.record.Disabled {
		t.Errorf("decision %+v, error %v; want a disabled record", d, err)
	}
}
