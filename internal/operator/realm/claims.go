package realm

import (
	"fmt"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// claimsWithinSize returns nil if the Realm's claims fit into a token, and otherwise the result for
// the Accepted condition.
func claimsWithinSize(realm *v1beta1.Realm) *condition.Result {
	excess := record.DescribeExcessClaims(record.MergeClaims(realm.Spec.Claims))
	if excess == "" {
		return nil
	}
	result := condition.NotReady(v1beta1.ReasonClaimsTooLarge, fmt.Sprintf(
		"spec.claims has %s, so clients cannot get tokens. Remove or shorten claims.", excess))
	return &result
}
