package oauth

import (
	"net/url"
	"slices"
	"strings"
)

// NarrowScope returns the part of granted that the scope parameter asks for, in
// granted's order; all of it when requested is empty (RFC 6749 §3.3).
//
// The error is ErrInvalidScope when requested does not follow the grammar
// scope-token *( SP scope-token ) or names a scope that is not in granted.
func NarrowScope(requested string, granted []string) ([]string, error) {
	if requested == "" {
		return granted, nil
	}
	wanted := strings.Split(requested, " ")
	for _, s := range wanted {
		// An empty token stands for two spaces in a row; it is never granted.
		if !slices.Contains(granted, s) {
			return nil, ErrInvalidScope
		}
	}
	narrowed := make([]string, 0, len(wanted))
	for _, s := range granted {
		if slices.Contains(wanted, s) {
			narrowed = append(narrowed, s)
		}
	}
	return narrowed, nil
}

// NarrowAudience returns the part of granted that audience and resources ask for,
// in granted's order; all of it when they ask for nothing (RFC 8707 §2.2).
//
// The error is ErrInvalidTarget when one is not in granted, or a resource is not
// an absolute URI or has a fragment.
func NarrowAudience(audience string, resources, granted []string) ([]string, error) {
	if audience == "" && len(resources) == 0 {
		return granted, nil
	}
	if audience != "" && !slices.Contains(granted, audience) {
		return nil, ErrInvalidTarget
	}
	for _, r := range resources {
		if !validResource(r) || !slices.Contains(granted, r) {
			return nil, ErrInvalidTarget
		}
	}
	narrowed := make([]string, 0, len(resources)+1)
	for _, a := range granted {
		if a == audience || slices.Contains(resources, a) {
			narrowed = append(narrowed, a)
		}
	}
	return narrowed, nil
}

func validResource(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && !strings.Contains(s, "#")
}
