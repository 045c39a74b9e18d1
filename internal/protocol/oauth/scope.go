package oauth

import (
	"net/url"
	"slices"
	"strings"
)

// NarrowScope returns the granted scopes that the scope parameter requests, in the order of granted,
// which is a set. If requested is empty, it returns all of them (RFC 6749 §3.3).
//
// The error is ErrInvalidScope, with the first one if possible, if requested does not match the grammar
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
		for scope := range strings.SplitSeq(requested, " ") {
			if !slices.Contains(granted, scope) {
				return nil, ErrInvalidScope.Refusing(scope)
			}
		}
	}
	return narrowed, nil
}

// NarrowAudience returns the granted audiences that audiences and resources request, in the order of
// granted. If both are empty, it returns all of them (RFC 8707 §2.2).
//
// The error is ErrInvalidTarget, with the first one if possible, if one is not granted, or if a resource
// is not an absolute URI or has a fragment.
func NarrowAudience(audiences, resources, granted []string) ([]string, error) {
	if len(audiences) == 0 && len(resources) == 0 {
		return granted, nil
	}
	for _, a := range audiences {
		if !slices.Contains(granted, a) {
			return nil, ErrInvalidTarget.Refusing(a)
		}
	}
	for _, r := range resources {
		if !validResource(r) || !slices.Contains(granted, r) {
			return nil, ErrInvalidTarget.Refusing(r)
		}
	}
	narrowed := make([]string, 0, len(audiences)+len(resources))
	for _, a := range granted {
		if slices.Contains(audiences, a) || slices.Contains(resources, a) {
			narrowed = append(narrowed, a)
		}
	}
	return narrowed, nil
}

// SingleAudience returns the one audience that audiences and resources request. Both can contain it,
// because some clients send it as both. If both are empty, it returns an empty string.
//
// Errors: ErrNotOneTarget if they request several; ErrInvalidTarget, with the first one if possible, if a
// resource is not an absolute URI or has a fragment.
func SingleAudience(audiences, resources []string) (string, error) {
	single := ""
	for _, a := range slices.Concat(audiences, resources) {
		if single != "" && a != single {
			return "", ErrNotOneTarget
		}
		single = a
	}
	if i := slices.IndexFunc(resources, func(r string) bool { return !validResource(r) }); i >= 0 {
		return "", ErrInvalidTarget.Refusing(resources[i])
	}
	return single, nil
}

func validResource(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && !strings.Contains(s, "#")
}
