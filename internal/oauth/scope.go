package oauth

import (
	"net/url"
	"slices"
	"strings"
)

// NarrowScope returns the granted scopes that the scope parameter requests, in the order of granted,
// which is a set. If requested is empty, it returns all of them (RFC 6749 §3.3).
//
// The error is ErrInvalidScope if requested does not match the grammar
// scope-token *( SP scope-token ) or contains a scope that is not granted.
func NarrowScope(requested string, granted []string) ([]string, error) {
	if requested == "" {
		return granted, nil
	}
	wanted := strings.Split(requested, " ")
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	narrowed := make([]string, 0, min(len(wanted), len(granted)))
	for _, s := range granted {
		if _, found := slices.BinarySearch(wanted, s); found {
			narrowed = append(narrowed, s)
		}
	}
	// Two consecutive spaces produce an empty token, which is never granted.
	if len(narrowed) != len(wanted) {
		return nil, ErrInvalidScope
	}
	return narrowed, nil
}

// NarrowAudience returns the granted audiences that audience and resources request, in the order of
// granted. If both are empty, it returns all of them (RFC 8707 §2.2).
//
// The error is ErrInvalidTarget if one is not granted, or if a resource is not an absolute URI or
// has a fragment.
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
