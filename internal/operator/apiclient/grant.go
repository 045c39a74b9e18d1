package apiclient

import (
	"fmt"
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// coverage is what the best grant of a Realm gives an ApiClient.
type coverage struct {
	// grant is the first grant that covers the client. If there is none, it is the grant that lacks
	// the least, or nil if no grant includes the client's namespace.
	grant *v1beta1.Grant
	// audiences are the audiences of the client's tokens, sorted.
	audiences []string
	// lacks describes what the grant lacks; empty if it covers the client.
	lacks []string
	// dpop reports whether any grant requires DPoP of the client, not only the one that covers it.
	dpop bool
}

// covered returns the coverage of the client. A single grant must cover everything that the client
// requests; grants are never combined, because their combination could allow more than any of them.
func covered(seen *request) coverage {
	best, dpop := coverage{}, false
	for i := range seen.realm.Spec.Grants {
		grant := &seen.realm.Spec.Grants[i]
		if !grant.Namespaces.Includes(seen.client.Namespace, seen.namespaceLabels()) {
			continue
		}
		c := coverageOf(seen, grant)
		if best.grant == nil || len(c.lacks) < len(best.lacks) {
			best = c
		}
		dpop = dpop || grant.RequiresDPoP(seen.client.Spec.AllScopes())
	}
	best.dpop = dpop
	return best
}

func coverageOf(seen *request, grant *v1beta1.Grant) coverage {
	spec := &seen.client.Spec
	granted := slices.DeleteFunc(realmAudiences(seen.realm, seen.instance), func(a string) bool { return !grant.AllowsAudience(a) })
	c := coverage{grant: grant, audiences: granted}
	if len(spec.Audiences) > 0 {
		c.audiences = slices.Sorted(slices.Values(spec.Audiences))
	}
	for _, scope := range spec.AllScopes() {
		if !grant.AllowsScope(scope) {
			c.lacks = append(c.lacks, fmt.Sprintf("scope %q", scope))
		}
	}
	for _, issuer := range spec.Issuers() {
		if !grant.AllowsIssuer(issuer) {
			c.lacks = append(c.lacks, fmt.Sprintf("issuer %q", issuer))
		}
	}
	for _, audience := range difference(slices.Concat(spec.Audiences, spec.Introspection.Audiences), granted) {
		c.lacks = append(c.lacks, fmt.Sprintf("audience %q", audience))
	}
	if len(c.audiences) == 0 {
		c.lacks = append(c.lacks, "an audience that the Realm defines")
	}
	if spec.ClientID != "" && !slices.ContainsFunc(grant.ClientIDs, func(pattern string) bool {
		return coversClientID(pattern, spec.ClientID, seen.otherNamespace)
	}) {
		c.lacks = append(c.lacks, lackingClientID(spec.ClientID, seen.otherNamespace))
	}
	return c
}

// coversClientID reports whether an entry in the client IDs of a grant covers a client ID. A prefix
// does not cover the default client IDs of another namespace, because a client that is created
// there later would find its ID taken.
func coversClientID(entry, clientID, otherNamespace string) bool {
	prefix, isPrefix := strings.CutSuffix(entry, "*")
	if !isPrefix {
		return entry == clientID
	}
	return otherNamespace == "" && strings.HasPrefix(clientID, prefix)
}

// lackingClientID describes a client ID that no entry covers. If there is another namespace with such
// default client IDs, the ID may match a prefix, so the description says why that isn't enough.
func lackingClientID(clientID, otherNamespace string) string {
	if otherNamespace == "" {
		return fmt.Sprintf("client ID %q", clientID)
	}
	return fmt.Sprintf("client ID %q (it looks like a default client ID of namespace %q, which no prefix covers)", clientID, otherNamespace)
}

// includesNamespace accepts only clients in a namespace that a grant includes.
func (c *coverage) includesNamespace(seen *request) *condition.Result {
	if c.grant != nil {
		return nil
	}
	return notReady(v1beta1.ReasonNamespaceNotAllowed, "No grant of Realm %q includes namespace %q. Add a grant for the namespace to spec.grants of the Realm, or create the client in a namespace that has one.",
		seen.realm.Name, seen.client.Namespace)
}

// covers accepts only clients that a single grant covers.
func (c *coverage) covers(seen *request) *condition.Result {
	if len(c.lacks) == 0 {
		return nil
	}
	return notReady(v1beta1.ReasonNotGranted, "No single grant of Realm %q covers this client, and grants are never combined. The nearest is grant %q, which lacks %s. Change the client so that one grant covers it, or extend that grant in spec.grants of the Realm.",
		seen.realm.Name, c.grant.Name, condition.Names(c.lacks))
}
