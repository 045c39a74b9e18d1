package apiclient

import (
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// claimsInRealm accepts only claims that the Realm lets clients set. The API server ensures that
// these differ from the Realm's own claims in more than case.
func (seen *request) claimsInRealm() *condition.Result {
	var fixed, unknown []string
	for _, claim := range seen.client.Spec.Claims {
		switch {
		case slices.ContainsFunc(seen.realm.Spec.Claims, func(c v1beta1.Claim) bool { return strings.EqualFold(string(c.Name), string(claim.Name)) }):
			fixed = append(fixed, string(claim.Name))
		case !slices.Contains(seen.realm.Spec.AllowedClaims, claim.Name):
			unknown = append(unknown, string(claim.Name))
		}
	}
	slices.Sort(fixed)
	slices.Sort(unknown)
	switch {
	case len(fixed) > 0:
		return notReady(v1beta1.ReasonClaimNotInRealm, "Realm %q sets these claims from spec.claims itself, with the same value for every client: %s. Remove them.",
			seen.realm.Name, condition.Names(fixed))
	case len(unknown) > 0:
		return notReady(v1beta1.ReasonClaimNotInRealm, "Realm %q does not allow these claims from spec.claims: %s. Remove them or add them to spec.allowedClaims of the Realm.",
			seen.realm.Name, condition.Names(unknown))
	}
	return nil
}

// tokenWithinSize accepts only clients whose tokens all APIs can receive, even with all scopes and audiences.
func (c *coverage) tokenWithinSize(seen *request) *condition.Result {
	size := record.LargestToken(seen.instance.Issuer(seen.realm.Name), &record.Client{
		ClientID: seen.client.EffectiveClientID(), Scopes: seen.client.Spec.Scopes, Audiences: c.Audiences,
		Claims: record.MergeClaims(seen.realm.Spec.Claims, seen.client.Spec.Claims),
	})
	if size <= oauth.MaxTokenBytes {
		return nil
	}
	return notReady(v1beta1.ReasonTokenTooLarge, "A token with all %d scopes and %d audiences of this client could have %d bytes, but tokens can have %d. List fewer or shorter scopes and audiences in spec, or use several clients.",
		len(seen.client.Spec.Scopes), len(c.Audiences), size, oauth.MaxTokenBytes)
}

// claimsWithinSize accepts only claims that fit into a token together with those of the Realm.
func (seen *request) claimsWithinSize() *condition.Result {
	excess := record.DescribeExcessClaims(record.MergeClaims(seen.realm.Spec.Claims, seen.client.Spec.Claims))
	if excess == "" {
		return nil
	}
	return notReady(v1beta1.ReasonClaimsTooLarge, "Realm %q and this client together have %s. Remove or shorten claims in spec.claims of one of them.", seen.realm.Name, excess)
}
