package record

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Limits of the fixed claims of a token. MaxClaimBytes is the limit of EncodeClaims.
const (
	MaxClaims     = 16
	MaxClaimBytes = 2048
)

// maxInteger is the largest integer that every JSON implementation reads exactly (RFC 8259, section
// 6).
const maxInteger = 1<<53 - 1

// Claim is a fixed claim: a member that is added to every token of a client.
type Claim struct {
	Name string `json:"name"`
	// Value is a JSON string, integer, or list of strings.
	Value json.RawMessage `json:"value"`
}

// EncodeClaims returns the claims as members of a JSON object, each after a comma, such as
// `,"tenant":"acme","seats":25`.
func EncodeClaims(claims []Claim) []byte {
	var encoded []byte
	for _, claim := range claims {
		encoded = append(encoded, ',')
		encoded = strconv.AppendQuote(encoded, claim.Name) // A valid name contains only letters, digits and punctuation.
		encoded = append(encoded, ':')
		encoded = append(encoded, claim.Value...)
	}
	return encoded
}

// isReservedClaim reports whether name is reserved, regardless of case. No fixed claim can have such a
// name.
func isReservedClaim(name string) bool {
	return slices.Contains(v1beta1.ReservedClaims, strings.ToLower(name))
}

// withoutReservedClaims returns the claims whose names are not reserved. It may change the argument.
func withoutReservedClaims(claims []Claim) []Claim {
	return slices.DeleteFunc(claims, func(c Claim) bool { return isReservedClaim(c.Name) })
}

func validClaims(claims []Claim) bool {
	names := map[string]bool{}
	for _, claim := range claims {
		// Many JSON decoders ignore case, so that a name that differs only in case would replace
		// another claim.
		folded := strings.ToLower(claim.Name)
		if !validClaimName(claim.Name) || names[folded] || !validClaimValue(claim.Value) {
			return false
		}
		names[folded] = true
	}
	return len(claims) <= MaxClaims && len(EncodeClaims(claims)) <= MaxClaimBytes
}

func validClaimName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.:/-", r)
	})
}

func validClaimValue(value json.RawMessage) bool {
	var decoded any
	if json.Unmarshal(value, &decoded) != nil {
		return false
	}
	switch decoded := decoded.(type) {
	case string:
		return true
	case float64:
		integer, err := strconv.ParseInt(string(value), 10, 64)
		return err == nil && integer >= -maxInteger && integer <= maxInteger
	case []any:
		return !slices.ContainsFunc(decoded, func(item any) bool { _, ok := item.(string); return !ok })
	}
	return false
}
