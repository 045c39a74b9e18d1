package oauth

import (
	"encoding/base64"
	"strings"
)

// Requirements are what a gateway requires of a token in addition to validity.
type Requirements struct {
	Scope    string // scope tokens, separated by one space; if empty, none is required
	Audience string // if empty, any audience is accepted
}

// ParseRequirements parses "scope" and "audience" from the query of a verification request. It
// rejects everything else, because a requirement that is misspelled must not be skipped.
//
// Errors: ErrMalformed, ErrRepeated, ErrUnknownRequirement, ErrEmptyRequirement.
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
	var field *string
	switch name {
	case "scope":
		field = &r.Scope
		// Two consecutive spaces produce an empty scope token.
		if strings.Contains(" "+value+" ", "  ") {
			return ErrEmptyRequirement
		}
	case "audience":
		field = &r.Audience
	default:
		return ErrUnknownRequirement
	}
	if value == "" {
		return ErrEmptyRequirement
	}
	if *field != "" {
		return ErrRepeated
	}
	*field = value
	return nil
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
