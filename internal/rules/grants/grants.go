// Package grants decides whether a grant of a Realm covers an ApiClient. It is the only judge: the operator accepts a
// client because of it, and the kubectl plugin and the portal predict that.
package grants

import (
	"fmt"
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Request is what the grants of a Realm are judged by.
type Request struct {
	Realm *v1beta1.Realm
	// Issuer is the issuer of the Realm, which is its only audience if it lists none. If both are missing, what
	// is requested of audiences isn't judged.
	Issuer string
	Client *v1beta1.ApiClient
	// NamespaceLabels are the labels of the client's namespace; nil if they are not known.
	NamespaceLabels map[string]string
	// OtherNamespace is the name of another existing namespace whose default client IDs spec.clientID
	// looks like; empty if there is none.
	OtherNamespace string
}

// Coverage is what the best grant of a Realm gives an ApiClient.
type Coverage struct {
	// Grant is the first grant that covers the client. If there is none, it is the grant that lacks
	// the least, or nil if no grant includes the client's namespace.
	Grant *v1beta1.Grant
	// Audiences are the audiences of the client's tokens, sorted.
	Audiences []string
	// DPoP reports whether any grant requires DPoP of the client, not only the one that covers it.
	DPoP bool
	// Undecided means that a grant would cover the client if it includes the namespace, whose labels are not
	// known.
	Undecided bool

	request *Request
	lacks   []string // what the grant lacks; empty if it covers the client
}

// Coverage judges the grants. A single grant must cover everything that the client requests; grants are never
// combined, because their combination could allow more than any of them.
func (r *Request) Coverage() Coverage {
	best, dpop, undecided := Coverage{request: r}, false, false
	for i := range r.Realm.Spec.Grants {
		grant := &r.Realm.Spec.Grants[i]
		switch {
		case r.includes(grant):
			if c := r.coverage(grant); best.Grant == nil || len(c.lacks) < len(best.lacks) {
				best = c
			}
			dpop = dpop || grant.RequiresDPoP(r.Client.Spec.AllScopes())
		case !undecided && MayInclude(&grant.Namespaces, r.Client.Namespace, r.NamespaceLabels):
			c := r.coverage(grant)
			undecided = c.Covers()
		}
	}
	best.DPoP, best.Undecided = dpop, undecided
	return best
}

func (r *Request) includes(grant *v1beta1.Grant) bool {
	return grant.Namespaces.Includes(r.Client.Namespace, r.NamespaceLabels)
}

// MayInclude reports whether n includes a namespace with the given labels, or could if they are not known, which nil
// stands for.
func MayInclude(n *v1beta1.GrantedNamespaces, namespace string, labels map[string]string) bool {
	return n.Selector != nil && labels == nil || n.Includes(namespace, labels)
}

// coverage returns what a grant gives the client if it includes the namespace.
func (r *Request) coverage(grant *v1beta1.Grant) Coverage {
	spec, c := &r.Client.Spec, Coverage{request: r, Grant: grant}
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
	if len(r.Realm.Spec.Audiences) > 0 || r.Issuer != "" {
		r.coverAudiences(&c)
	}
	if id := spec.ClientID; id != "" && !slices.ContainsFunc(grant.ClientIDs, r.coversClientID) {
		c.lacks = append(c.lacks, fmt.Sprintf("client ID %q", id))
		if r.OtherNamespace != "" { // The ID may match a prefix, so say why that isn't enough.
			c.lacks[len(c.lacks)-1] += fmt.Sprintf(" (it looks like a default client ID of namespace %q, which no prefix covers)", r.OtherNamespace)
		}
	}
	return c
}

// coverAudiences sets the audiences. A client that lists none gets all that the grant allows and the Realm defines.
func (r *Request) coverAudiences(c *Coverage) {
	spec, granted := &r.Client.Spec, slices.Clone(r.Realm.Spec.EffectiveAudiences(r.Issuer))
	granted = slices.DeleteFunc(granted, func(a string) bool { return !c.Grant.AllowsAudience(a) })
	for _, audience := range slices.Sorted(slices.Values(slices.Concat(spec.Audiences, spec.Introspection.Audiences))) {
		if !slices.Contains(granted, audience) {
			c.lacks = append(c.lacks, fmt.Sprintf("audience %q", audience))
		}
	}
	if c.Audiences = slices.Clone(spec.Audiences); len(c.Audiences) == 0 {
		c.Audiences = granted
	}
	if slices.Sort(c.Audiences); len(c.Audiences) == 0 {
		c.lacks = append(c.lacks, "an audience that the Realm defines")
	}
}

// coversClientID reports whether an entry in the client IDs of a grant covers that of the client. A prefix
// does not cover the default client IDs of another namespace, because a client that is created
// there later would find its ID taken.
func (r *Request) coversClientID(entry string) bool {
	prefix, isPrefix := strings.CutSuffix(entry, "*")
	if !isPrefix {
		return entry == r.Client.Spec.ClientID
	}
	return r.OtherNamespace == "" && strings.HasPrefix(r.Client.Spec.ClientID, prefix)
}

// Covers reports whether the grant covers the client.
func (c *Coverage) Covers() bool { return c.Grant != nil && len(c.lacks) == 0 }

// maxLacks is the maximum number of things in a message that a grant lacks. The API server limits the length of
// messages.
const maxLacks = 5

// Problem says in one or two sentences why no grant covers the client.
func (c *Coverage) Problem() string {
	if c.Grant == nil {
		return fmt.Sprintf("No grant of Realm %q includes namespace %q.", c.request.Realm.Name, c.request.Client.Namespace)
	}
	lacks := c.lacks
	if more := len(lacks) - maxLacks; more > 0 {
		lacks = append(lacks[:maxLacks:maxLacks], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("No single grant of Realm %q covers this client, and grants are never combined. The nearest is grant %q, which lacks %s.",
		c.request.Realm.Name, c.Grant.Name, strings.Join(lacks, ", "))
}

// KnownAudiences returns the audiences of the realm according to its status; none if it has no issuer yet.
func KnownAudiences(realm *v1beta1.Realm) []string {
	if realm.Status.Issuer == "" {
		return realm.Spec.Audiences
	}
	return realm.Spec.EffectiveAudiences(realm.Status.Issuer)
}
