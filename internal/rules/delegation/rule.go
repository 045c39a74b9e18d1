// Package delegation decides which rule of a Realm lets which client act for which subject. It is the only judge:
// token servers issue and verify tokens because of it, and the kubectl plugin and the portal predict that.
package delegation

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Rule is a rule of a realm by which clients get tokens that act for the subject of another token.
type Rule struct {
	Name string
	// Digest identifies in tokens what the rule allowed; empty for a rule of a spec.
	Digest string
	// Actors are the clients that can use the rule.
	Actors Clients
	// Subjects are the clients whose tokens can be exchanged; nil if they are tokens of Issuer.
	Subjects *Clients
	// Issuer is the name of a trusted issuer whose tokens can be exchanged; empty with Subjects. IDJAG means
	// that they are ID-JAGs, and otherwise they are subject tokens. Claims are strings that they must contain.
	Issuer string
	IDJAG  bool
	Claims map[string]string
	// SubjectAudiences are audiences of which a token of Subjects must have one, and SubjectScopes are
	// scopes that it must have. With SubjectScopes, the new token can have others.
	SubjectAudiences, SubjectScopes []string
	// Audiences and Scopes are those that a new token can have.
	Audiences, Scopes []string
	// MaxDepth is the maximum number of actors in a new token.
	MaxDepth int
	// DPoP means that every new token is bound to a key of the actor, even if another rule applies.
	DPoP bool
	// TokenLifetime limits the lifetime of new tokens. Zero means no limit of the rule.
	TokenLifetime time.Duration
	// DeniedSubjects are values of "sub" for which Actors get no tokens for Audiences, by any rule.
	DeniedSubjects []string
}

// Clients selects clients by their namespace. Exactly one of All, Namespaces, and Labels is set.
type Clients struct {
	All        bool     // every namespace
	Namespaces []string // by name
	// Labels identifies a selector of namespaces by their labels.
	Labels string
	// ClientIDs are those of the selected clients. If empty, all clients in the namespaces are selected.
	ClientIDs []string
}

// Select reports whether s selects the client with the given ID, in the given namespace, whose labels
// match the given selectors.
func (s *Clients) Select(clientID, namespace string, selectors []string) bool {
	return (len(s.ClientIDs) == 0 || slices.Contains(s.ClientIDs, clientID)) &&
		(s.All || slices.Contains(s.Namespaces, namespace) || s.Labels != "" && slices.Contains(selectors, s.Labels))
}

// SelectOnly reports whether s can select no client but the one with the given ID.
func (s *Clients) SelectOnly(clientID string) bool {
	return len(s.ClientIDs) > 0 && !slices.ContainsFunc(s.ClientIDs, func(other string) bool { return other != clientID })
}

// RulesOf returns the rules of a Realm with the given issuer, in the order of the spec, because the first rule that
// allows an exchange applies. Audiences and scopes that the Realm doesn't define are omitted. A rule that
// allows nothing stays, so that every rule of the spec has its name. labels identifies a selector.
func RulesOf(realm *v1beta1.Realm, issuer string, labels func(*v1beta1.NamespaceSelector) string) []Rule {
	clients := func(spec *v1beta1.ExchangeClients) Clients {
		selected := Clients{
			All:        spec.Namespaces.From == v1beta1.NamespacesFromAll,
			Namespaces: slices.Sorted(slices.Values(spec.Namespaces.Names)),
			ClientIDs:  slices.Sorted(slices.Values(spec.ClientIDs)),
		}
		if selector := spec.Namespaces.Granted().Selector; selector != nil {
			selected.Labels = labels(selector)
		}
		return selected
	}
	var rules []Rule
	for i := range realm.Spec.Exchanges {
		spec := &realm.Spec.Exchanges[i]
		rule := Rule{
			Name:             spec.Name,
			Actors:           clients(&spec.Actors),
			SubjectAudiences: defined(spec.Subjects.Audiences, realm.Spec.EffectiveAudiences(issuer)),
			// A token must have all of these, even those that no token can have now.
			SubjectScopes:  slices.Sorted(slices.Values(spec.Subjects.Scopes)),
			Audiences:      defined(spec.Audiences, realm.Spec.EffectiveAudiences(issuer)),
			Scopes:         defined(spec.Scopes, realm.Spec.Scopes),
			MaxDepth:       spec.EffectiveMaxDepth(),
			DPoP:           spec.SenderConstraint == v1beta1.SenderConstraintDPoP,
			DeniedSubjects: slices.Sorted(slices.Values(spec.DeniedSubjects)),
		}
		if selected := spec.Subjects.Clients; selected != nil {
			rule.Subjects = new(clients(selected))
		} else if from := spec.Subjects.Issuer; from != nil {
			rule.Issuer, rule.IDJAG, rule.Claims = from.Name, from.EffectiveUse() == v1beta1.ExchangeUseIDJAG, from.MatchClaims.Map()
		}
		if spec.TokenLifetime != nil {
			rule.TokenLifetime = spec.TokenLifetime.Duration
		}
		rules = append(rules, rule)
	}
	return rules
}

// defined returns the set of the listed values that are among all, sorted.
func defined(listed, all []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(listed), func(value string) bool { return !slices.Contains(all, value) }))))
}
