package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// MergeClaims returns the fixed claims of a Realm and an ApiClient for a record, sorted by name. It omits
// those with a reserved name.
func MergeClaims(lists ...v1beta1.Claims) []Claim {
	var merged []Claim
	for _, list := range lists {
		for _, claim := range list {
			if !isReservedClaim(string(claim.Name)) {
				merged = append(merged, Claim{Name: string(claim.Name), Value: encodeClaim(claim)})
			}
		}
	}
	slices.SortFunc(merged, func(a, b Claim) int { return cmp.Compare(a.Name, b.Name) })
	return merged
}

// DescribeReservedClaims describes the claims with a reserved name. It is empty if there are none. The
// API server rejects such names, but an object can be older than the version that reserved them.
func DescribeReservedClaims(lists ...v1beta1.Claims) string {
	var names []string
	for _, claim := range slices.Concat(lists...) {
		if isReservedClaim(string(claim.Name)) {
			names = append(names, string(claim.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " Tokens do not contain the claims with these reserved names: " + strings.Join(names, ", ") + ". Choose other names for them."
}

func encodeClaim(claim v1beta1.Claim) json.RawMessage {
	var value any = claim.String
	switch {
	case claim.Integer != nil:
		value = *claim.Integer
	case len(claim.Strings) > 0:
		value = claim.Strings
	}
	encoded, _ := json.Marshal(value) // Strings and integers can always be encoded.
	return encoded
}

// DescribeExcessClaims describes by how much the claims exceed the limits of a token. It is empty if they
// don't.
func DescribeExcessClaims(claims []Claim) string {
	size := len(EncodeClaims(claims))
	if len(claims) <= MaxClaims && size <= MaxClaimBytes {
		return ""
	}
	return fmt.Sprintf("%d claims with %d bytes as JSON, but tokens can have %d with %d bytes", len(claims), size, MaxClaims, MaxClaimBytes)
}
