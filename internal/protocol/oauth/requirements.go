package oauth

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// Requirements are what a gateway requires of a token in addition to validity, and of the response.
type Requirements struct {
	Scope    string // scope tokens, separated by one space; if empty, none is required
	Audience string // if empty, any audience is accepted
	// Claims are names of claims that the response repeats in headers, separated by one space. No
	// claim is required.
	Claims string
	// DPoP selects the headers in which the gateway states the API request that a DPoP proof is for. If
	// empty, the gateway states none, and tokens that are bound to a key are rejected.
	DPoP DPoPHeaders
	// Delegated accepts tokens with which a client acts for another subject, in addition to others.
	Delegated bool
}

// DPoPHeaders are the headers in which a gateway states the method and the URL of the API request.
// Each gateway sets only some of the known headers and forwards the others as the caller sent them,
// so the requirements say which ones to trust.
type DPoPHeaders string

// The known sets of headers.
const (
	// DPoPOriginal selects X-Original-Method and X-Original-URL, which is an absolute URL.
	DPoPOriginal DPoPHeaders = "original"
	// DPoPForwarded selects X-Forwarded-Method, X-Forwarded-Proto, X-Forwarded-Host and
	// X-Forwarded-Uri.
	DPoPForwarded DPoPHeaders = "forwarded"
)

const (
	// MaxClaimHeaders is the maximum number of claims in Requirements.
	MaxClaimHeaders = 16
	// claimHeaderPrefix precedes the name of a claim in the name of its response header.
	claimHeaderPrefix = "X-Auth-Claim-"
)

// ClaimHeader returns the name of the response header for a claim in Requirements. It has hyphens
// instead of underscores, because nginx drops headers with underscores.
func ClaimHeader(claim string) string {
	return http.CanonicalHeaderKey(claimHeaderPrefix + strings.ReplaceAll(claim, "_", "-"))
}

// ParseRequirements parses "scope", "audience", "claims", "delegated" and "dpop" from the query of a verification
// request. It rejects everything else, because a requirement that is misspelled must not be skipped.
//
// Errors: ErrMalformed, ErrRepeated, ErrUnknownRequirement, ErrEmptyRequirement, ErrClaimNames,
// ErrDelegatedValue, ErrDPoPHeaders.
func ParseRequirements(query string) (Requirements, error) {
	var required Requirements
	if query == "" {
		return required, nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, okName := unescape(rawName)
		value, okValue := unescape(rawValue)
		if !okName || !okValue || !cleanText(name) || !cleanText(value) {
			return Requirements{}, ErrMalformed
		}
		if err := required.set(name, value); err != nil {
			return Requirements{}, err
		}
	}
	return required, nil
}

func (r *Requirements) set(name, value string) error {
	if name == "delegated" {
		return r.setDelegated(value)
	}
	var field *string
	var err error
	switch name {
	case "scope":
		field = &r.Scope
		// Two consecutive spaces produce an empty scope token.
		if strings.Contains(" "+value+" ", "  ") {
			err = ErrEmptyRequirement
		}
	case "audience":
		field = &r.Audience
	case "claims":
		field, err = &r.Claims, checkClaimNames(value)
	case "dpop":
		field = (*string)(&r.DPoP)
		if value != string(DPoPOriginal) && value != string(DPoPForwarded) {
			err = ErrDPoPHeaders
		}
	default:
		return ErrUnknownRequirement
	}
	switch {
	case value == "":
		return ErrEmptyRequirement
	case err != nil:
		return err
	case *field != "":
		return ErrRepeated.about(name)
	}
	*field = value
	return nil
}

// setDelegated accepts only "true", so that no other value has the opposite effect of what it says.
func (r *Requirements) setDelegated(value string) error {
	switch {
	case value == "":
		return ErrEmptyRequirement
	case value != "true":
		return ErrDelegatedValue
	case r.Delegated:
		return ErrRepeated.about("delegated")
	}
	r.Delegated = true
	return nil
}

// checkClaimNames checks that each claim gets a valid header of its own.
func checkClaimNames(names string) error {
	headers := map[string]bool{}
	for name := range strings.SplitSeq(names, " ") {
		header := ClaimHeader(name)
		if name == "" || strings.ContainsFunc(name, notInHeader) || headers[header] || len(headers) == MaxClaimHeaders {
			return ErrClaimNames
		}
		headers[header] = true
	}
	return nil
}

func notInHeader(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// ParseRequirementsPath parses the part of a verification request's path that follows
// "/oauth2/verify/", in its escaped form: "require/", the requirements in base64url without
// padding, and optionally a slash and the path of the API request. The encoded requirements have
// the form of the query, and contain at least one. Nothing after them counts, because it comes from
// the caller of the API.
//
// Errors: ErrRequirementsPath, and those of ParseRequirements.
func ParseRequirementsPath(path string) (Requirements, error) {
	rest, ok := strings.CutPrefix(path, "require/")
	encoded, _, _ := strings.Cut(rest, "/")
	query, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(query) == 0 {
		return Requirements{}, ErrRequirementsPath
	}
	return ParseRequirements(string(query))
}
