package describe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
)

// Exchanges are the rules of a Realm in which an ApiClient takes part, in the order of the Realm.
type Exchanges struct {
	// Actor contains the rules with which the client can act for others, and Subject those with which
	// others can act for the client.
	Actor   []ActorRule   `json:"actor,omitempty"`
	Subject []SubjectRule `json:"subject,omitempty"`
}

// ExchangeLimits are the limits that a rule sets for all new tokens.
type ExchangeLimits struct {
	// MaxDepth is the maximum number of actors in a new token.
	MaxDepth int `json:"maxDepth"`
	// TokenLifetime is the maximum lifetime of a new token; empty if the rule has none.
	TokenLifetime string `json:"tokenLifetime,omitempty"`
	// DPoP means that every new token is bound to a key of the actor.
	DPoP bool `json:"dpop,omitempty"`
	// DeniedSubjects is the number of subjects for which the actors get no tokens for the audiences.
	DeniedSubjects int `json:"deniedSubjects,omitempty"`
}

// Tokens are the access tokens of a client that a rule selects.
type Tokens struct {
	// Audiences are those of which a token must have one, and Scopes are those that it must all have. Both
	// are sorted.
	Audiences []string `json:"audiences,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
}

// ActorRule is what a rule allows a client that it selects as an actor.
type ActorRule struct {
	Rule string `json:"rule"`
	// DependsOn describes the labels that the namespace of the client must have; empty if they are known,
	// or if the rule selects the client regardless of them.
	DependsOn string `json:"dependsOnNamespaceLabels,omitempty"`
	// Effective means that there can be tokens that the client can exchange.
	Effective bool `json:"effective"`
	// Subjects are the tokens that the client can exchange.
	Subjects v1beta1.ExchangeSubjects `json:"subjects"`
	// Audiences and Scopes are those of the rule that the client can get, sorted; see ScopeCondition.
	Audiences []string `json:"audiences,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	ExchangeLimits
	// Missing is what would allow the client more.
	Missing []Missing `json:"missing,omitempty"`
}

// SubjectRule is what a rule allows others to do with the tokens of a client that it selects as a subject.
type SubjectRule struct {
	Rule      string `json:"rule"`
	DependsOn string `json:"dependsOnNamespaceLabels,omitempty"` // as in ActorRule
	// Effective means that there can be tokens of the client that others can exchange.
	Effective bool `json:"effective"`
	// Actors are the clients that can act for this client.
	Actors v1beta1.ExchangeClients `json:"actors"`
	// Tokens are the tokens of the client that can be exchanged.
	Tokens Tokens `json:"tokens"`
	// Audiences and Scopes are those that new tokens with this subject can have, sorted. The actor must have
	// them, too.
	Audiences []string `json:"audiences,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	ExchangeLimits
	// EarlierActor means that the rule has no effect for the client as a subject, but that the client can be an
	// earlier actor in a token that others exchange.
	EarlierActor bool `json:"earlierActor,omitempty"`
	// Denied means that deniedSubjects contains the client. DeniedBy are the other rules with one of the
	// audiences that deny the client to their own actors for their own audiences, whichever rule allows it.
	Denied   bool     `json:"denied,omitempty"`
	DeniedBy []string `json:"deniedBy,omitempty"`
	// Missing is what would allow others more.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing are values that a rule refers to and that have no effect for a client.
type Missing struct {
	// Kind is "audience", "scope", "issuer", or "use".
	Kind   string   `json:"kind"`
	Values []string `json:"values"`
	// AddTo are the fields to all of which the values must be added.
	AddTo []string `json:"addTo"`
}

// String says what is missing, and where to add it.
func (m Missing) String() string {
	kind, is, it := strings.ToUpper(m.Kind[:1])+m.Kind[1:], "is", "it"
	if len(m.Values) > 1 {
		kind, is, it = kind+"s", "are", "them"
	}
	return fmt.Sprintf("%s %s %s missing. Add %s to %s.", kind, strings.Join(m.Values, ", "), is, it, strings.Join(m.AddTo, " and to "))
}

// ScopeCondition says what else must have the scopes; empty if nothing.
func (r *ActorRule) ScopeCondition() string {
	switch {
	case r.Subjects.Issuer == nil && len(r.Subjects.Scopes) == 0:
		return "only those of the exchanged token"
	case r.Subjects.Issuer == nil:
		return "a subject that is a client must have them too"
	case r.Subjects.Issuer.EffectiveUse() == v1beta1.ExchangeUseIDJAG:
		return "an ID-JAG with scopes limits them"
	}
	return ""
}

// ExchangesOf returns the rules of the Realm of the client that select it. namespaceLabels are the labels of
// its namespace; nil if they are not known.
func ExchangesOf(c *v1beta1.ApiClient, realm *v1beta1.Realm, namespaceLabels map[string]string) Exchanges {
	p := newParticipant(c, realm, namespaceLabels)
	var found Exchanges
	for i := range p.rules {
		rule, spec := &p.rules[i], &realm.Spec.Exchanges[i]
		// A client can't act for itself, or exchange a token that was issued to it.
		if p.selected(&rule.Actors) && (rule.Subjects == nil || !rule.Subjects.SelectOnly(p.as.ID)) {
			found.Actor = append(found.Actor, p.actorRule(rule, spec))
		}
		if rule.Subjects != nil && p.selected(rule.Subjects) && !rule.Actors.SelectOnly(p.as.ID) {
			found.Subject = append(found.Subject, p.subjectRule(rule, spec))
		}
	}
	return found
}

// NeedsNamespaceLabels reports whether the labels of namespaces decide which clients the rules of a Realm
// select.
func NeedsNamespaceLabels(realm *v1beta1.Realm) bool {
	return slices.ContainsFunc(realm.Spec.Exchanges, func(e v1beta1.Exchange) bool {
		return e.Actors.Namespaces.Selector != nil || e.Subjects.Clients != nil && e.Subjects.Clients.Namespaces.Selector != nil
	}) || slices.ContainsFunc(realm.Spec.Grants, func(g v1beta1.Grant) bool {
		return len(realm.Spec.Exchanges) > 0 && g.Namespaces.Selector != nil && g.SenderConstraint != ""
	})
}

// participant is a client that rules may select.
type participant struct {
	client *v1beta1.ApiClient
	realm  *v1beta1.Realm
	labels map[string]string // of its namespace; nil if they are not known
	rules  []delegation.Rule // those of the realm, in the same order
	as     delegation.Client // what matters to the rules
}

func newParticipant(c *v1beta1.ApiClient, realm *v1beta1.Realm, labels map[string]string) *participant {
	const matching, other = "matching", "other"
	p := &participant{client: c, realm: realm, labels: labels}
	p.rules = delegation.RulesOf(realm, realm.Status.Issuer, func(selector *v1beta1.NamespaceSelector) string {
		if grants.MayInclude(&v1beta1.GrantedNamespaces{Selector: selector}, c.Namespace, labels) {
			return matching
		}
		return other
	})
	p.as = delegation.Client{
		ID: c.EffectiveClientID(), Namespace: c.Namespace, Selectors: []string{matching}, DelegatedScopes: c.Spec.DelegatedScopes,
		Audiences: complete(realm.Spec.EffectiveAudiences(realm.Status.Issuer), p.audienceMissing), Scopes: complete(c.Spec.Scopes, p.scopeUndefined),
	}
	return p
}

// complete returns the values that no field lacks.
func complete(values []string, lacking func(string) []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(value string) bool { return lacking(value) != nil })
}

// selected reports whether a rule selects the client, or does so if its namespace has the labels that
// dependsOn describes.
func (p *participant) selected(clients *delegation.Clients) bool {
	return clients.Select(p.as.ID, p.as.Namespace, p.as.Selectors)
}

func (p *participant) dependsOn(clients *v1beta1.ExchangeClients) string {
	if p.labels != nil || clients.Namespaces.Selector == nil {
		return ""
	}
	return Namespaces(clients.Namespaces.Granted())
}

func (p *participant) actorRule(rule *delegation.Rule, spec *v1beta1.Exchange) ActorRule {
	r := ActorRule{Rule: rule.Name, DependsOn: p.dependsOn(&spec.Actors), Subjects: spec.Subjects, ExchangeLimits: p.limits(spec)}
	missing := &missing{}
	r.Audiences = missing.among(rule.AudiencesFor(&p.as), "audience", spec.Audiences, p.audienceMissing)
	r.Scopes = missing.among(rule.ScopesFor(&p.as), "scope", spec.Scopes, func(scope string) []string {
		return p.scopeMissing(scope, p.client.Spec.AllScopes(), "spec.delegatedScopes")
	})
	r.Effective = len(r.Audiences) > 0 && len(r.Scopes) > 0
	if spec.Subjects.Issuer == nil {
		subject := missing.among(rule.SubjectAudiences, "audience", spec.Subjects.Audiences, p.audienceUndefined)
		required := missing.among(p.realm.Spec.Scopes, "scope", rule.SubjectScopes, p.scopeUndefined)
		r.Effective = r.Effective && len(subject) > 0 && len(required) == len(rule.SubjectScopes)
	} else {
		r.Effective = missing.accepts(p.realm, spec.Subjects.Issuer) && r.Effective
	}
	r.Missing = missing.all
	return r
}

func (p *participant) subjectRule(rule *delegation.Rule, spec *v1beta1.Exchange) SubjectRule {
	r := SubjectRule{
		Rule: rule.Name, DependsOn: p.dependsOn(spec.Subjects.Clients), Actors: spec.Actors, ExchangeLimits: p.limits(spec),
		Tokens: Tokens{Scopes: rule.SubjectScopes}, Denied: slices.Contains(rule.DeniedSubjects, p.as.ID), DeniedBy: p.deniedBy(rule),
	}
	missing := &missing{}
	own := func(scope string) []string { return p.scopeMissing(scope, p.client.Spec.Scopes, "spec.scopes") }
	r.Tokens.Audiences = missing.among(p.as.Audiences, "audience", spec.Subjects.Audiences, p.audienceMissing)
	required := missing.among(p.as.Scopes, "scope", rule.SubjectScopes, own)
	r.Audiences = missing.among(rule.Audiences, "audience", spec.Audiences, p.audienceUndefined)
	r.Scopes = missing.among(rule.ScopesOf(&p.as), "scope", spec.Scopes, own)
	r.Effective = len(r.Tokens.Audiences) > 0 && len(required) == len(r.Tokens.Scopes) && len(r.Audiences) > 0 && len(r.Scopes) > 0 && !r.Denied
	if r.Missing = missing.all; !r.Effective && rule.MaxDepth > 1 {
		r.EarlierActor, r.Missing = true, nil
	}
	return r
}

// deniedBy returns the other rules that can deny the client if this one allows it.
func (p *participant) deniedBy(rule *delegation.Rule) []string {
	var names []string
	for i := range p.rules {
		if other := &p.rules[i]; other != rule && other.Denies(p.as.ID, rule, rule.Audiences) {
			names = append(names, other.Name)
		}
	}
	return names
}

// Effect says what a rule without effect does instead; empty if it has an effect.
func (r *ActorRule) Effect() string {
	if r.Effective {
		return ""
	}
	return "none for this client"
}

// Effect is like that of ActorRule.
func (r *SubjectRule) Effect() string {
	switch {
	case r.Effective:
		return ""
	case r.EarlierActor:
		return "only if this client is an earlier actor in the token"
	}
	return "none for this client"
}

func limits(rule *v1beta1.Exchange) ExchangeLimits {
	return ExchangeLimits{
		MaxDepth: rule.EffectiveMaxDepth(), TokenLifetime: Duration(rule.TokenLifetime),
		DPoP: rule.SenderConstraint == v1beta1.SenderConstraintDPoP, DeniedSubjects: len(rule.DeniedSubjects),
	}
}

// limits returns the limits of tokens with the client, whose DPoP key they are bound to if it requires that.
func (p *participant) limits(rule *v1beta1.Exchange) ExchangeLimits {
	l := limits(rule)
	l.DPoP = l.DPoP || p.client.Spec.SenderConstraint == v1beta1.SenderConstraintDPoP || p.grantRequiresDPoP()
	return l
}

// grantRequiresDPoP reports whether any grant that includes the namespace requires DPoP of the client. The one that
// the status names includes it even if the labels are not known.
func (p *participant) grantRequiresDPoP() bool {
	request := grants.Request{Realm: p.realm, Issuer: p.realm.Status.Issuer, Client: p.client, NamespaceLabels: p.labels}
	grant := p.grant()
	return request.Coverage().DPoP || grant != nil && grant.RequiresDPoP(p.client.Spec.AllScopes())
}

// audienceMissing returns the fields that lack an audience so that the client can get tokens for it.
func (p *participant) audienceMissing(audience string) []string {
	if fields := p.audienceUndefined(audience); fields != nil {
		return fields
	}
	spec, grant := &p.client.Spec, p.grant()
	var fields []string
	if len(spec.Audiences) > 0 && !slices.Contains(spec.Audiences, audience) {
		fields = append(fields, "spec.audiences of the ApiClient")
	}
	switch has := p.client.Status.Audiences; {
	case grant != nil && !grant.AllowsAudience(audience):
		fields = append(fields, p.inGrant("audiences"))
	case grant == nil && len(spec.Audiences) == 0 && len(has) > 0 && !slices.Contains(has, audience):
		fields = append(fields, "audiences of a grant in spec.grants of Realm "+strconv.Quote(p.realm.Name))
	}
	return fields
}

func (p *participant) audienceUndefined(audience string) []string {
	if slices.Contains(p.realm.Spec.EffectiveAudiences(p.realm.Status.Issuer), audience) {
		return nil
	}
	return []string{"spec.audiences of Realm " + strconv.Quote(p.realm.Name)}
}

// scopeMissing returns the fields that lack a scope, of which the client has those in own.
func (p *participant) scopeMissing(scope string, own []string, field string) []string {
	fields := p.scopeUndefined(scope)
	if slices.Contains(own, scope) {
		return fields
	}
	fields = append(fields, field+" of the ApiClient")
	if grant := p.grant(); grant != nil && !grant.AllowsScope(scope) {
		fields = append(fields, p.inGrant("scopes"))
	}
	return fields
}

func (p *participant) scopeUndefined(scope string) []string {
	if slices.Contains(p.realm.Spec.Scopes, scope) {
		return nil
	}
	return []string{"spec.scopes of Realm " + strconv.Quote(p.realm.Name)}
}

// grant returns the grant that allows the client, or nil if it is not known.
func (p *participant) grant() *v1beta1.Grant {
	i := slices.IndexFunc(p.realm.Spec.Grants, func(g v1beta1.Grant) bool { return g.Name == p.client.Status.Grant })
	if i < 0 {
		return nil
	}
	return &p.realm.Spec.Grants[i]
}

func (p *participant) inGrant(field string) string {
	return fmt.Sprintf("%s of grant %q in spec.grants of Realm %q", field, p.client.Status.Grant, p.realm.Name)
}

// missing collects what is missing.
type missing struct{ all []Missing }

// among returns the values that are allowed, sorted, and collects the others. lacking returns the fields
// to which a value must be added.
func (m *missing) among(allowed []string, kind string, values []string, lacking func(string) []string) []string {
	var found []string
	for _, value := range sorted(values) {
		if slices.Contains(allowed, value) {
			found = append(found, value)
		} else {
			m.add(kind, value, lacking(value)...)
		}
	}
	return found
}

func (m *missing) add(kind, value string, fields ...string) {
	i := slices.IndexFunc(m.all, func(other Missing) bool { return other.Kind == kind && slices.Equal(other.AddTo, fields) })
	switch {
	case i < 0:
		m.all = append(m.all, Missing{kind, []string{value}, fields})
	case !slices.Contains(m.all[i].Values, value):
		m.all[i].Values = append(m.all[i].Values, value)
	}
}

// accepts reports whether the Realm accepts the tokens of an issuer for the rule.
func (m *missing) accepts(realm *v1beta1.Realm, from *v1beta1.ExchangeIssuer) bool {
	issuer := realm.Spec.TrustedIssuer(from.Name)
	if issuer == nil {
		m.add("issuer", from.Name, "spec.trustedIssuers of Realm "+strconv.Quote(realm.Name))
		return false
	}
	if !issuer.Accepts(v1beta1.IssuerUse(from.EffectiveUse())) {
		m.add("use", string(from.EffectiveUse()), fmt.Sprintf("uses of issuer %q in spec.trustedIssuers of Realm %q", from.Name, realm.Name))
		return false
	}
	return true
}

// sorted returns the values sorted and without duplicates.
func sorted(values []string) []string { return slices.Compact(slices.Sorted(slices.Values(values))) }

// ExchangeRule is a rule of a Realm without the subjects that it denies, which can be people.
type ExchangeRule struct {
	Name      string                    `json:"name"`
	Actors    v1beta1.ExchangeClients   `json:"actors"`
	Subjects  v1beta1.ExchangeSubjects  `json:"subjects"`
	Audiences v1beta1.ExchangeAudiences `json:"audiences"`
	Scopes    v1beta1.ExchangeScopes    `json:"scopes"`
	ExchangeLimits
}

// ExchangeRules returns the rules of a Realm.
func ExchangeRules(realm *v1beta1.Realm) []ExchangeRule {
	var rules []ExchangeRule
	for i := range realm.Spec.Exchanges {
		e := &realm.Spec.Exchanges[i]
		rules = append(rules, ExchangeRule{e.Name, e.Actors, e.Subjects, e.Audiences, e.Scopes, limits(e)})
	}
	return rules
}

// ExchangeClients describes the clients that a rule selects.
func ExchangeClients(c *v1beta1.ExchangeClients) string {
	text := "clients in namespaces: " + Namespaces(c.Namespaces.Granted())
	if len(c.ClientIDs) > 0 {
		text += "; client IDs: " + strings.Join(c.ClientIDs, ", ")
	}
	return text
}

// ExchangeIssuer describes the tokens of an issuer that a rule selects.
func ExchangeIssuer(i *v1beta1.ExchangeIssuer) string {
	text := "tokens of issuer " + i.Name
	if i.EffectiveUse() == v1beta1.ExchangeUseIDJAG {
		text = "ID-JAGs of issuer " + i.Name
	}
	var claims []string
	for _, c := range i.MatchClaims {
		claims = append(claims, c.Name+" "+strconv.Quote(c.Value))
	}
	if len(claims) > 0 {
		text += "; claims: " + strings.Join(claims, ", ")
	}
	if i.AnyClient {
		text += "; issued to any client"
	}
	return text
}
