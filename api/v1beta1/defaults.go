package v1beta1

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// GetConditions returns the conditions of the realm.
func (r *Realm) GetConditions() []metav1.Condition { return r.Status.Conditions }

// GetConditions returns the conditions of the client.
func (c *ApiClient) GetConditions() []metav1.Condition { return c.Status.Conditions }

// GetConditions returns the conditions of the instance.
func (i *Instance) GetConditions() []metav1.Condition { return i.Status.Conditions }

// EffectiveAlgorithm returns the algorithm of new keys of the realm. It defaults to ES256.
func (s Signing) EffectiveAlgorithm() SigningAlgorithm {
	return cmp.Or(s.Algorithm, SigningAlgorithmES256)
}

// EffectiveRotationInterval returns how long a key of the realm signs. It defaults to 30 days.
func (s Signing) EffectiveRotationInterval() time.Duration {
	if s.RotationInterval == nil {
		return 720 * time.Hour
	}
	return s.RotationInterval.Duration
}

// EffectivePublishAhead returns how long a key of the realm is published before it signs. It
// defaults to an hour, or half the rotation interval if that is shorter.
func (s Signing) EffectivePublishAhead() time.Duration {
	if s.PublishAhead == nil {
		return min(time.Hour, s.EffectiveRotationInterval()/2)
	}
	return s.PublishAhead.Duration
}

// EffectiveTTL returns how long verifiers can use a status list. It defaults to 10 seconds.
func (s StatusList) EffectiveTTL() time.Duration {
	if s.TTL == nil {
		return 10 * time.Second
	}
	return s.TTL.Duration
}

// EffectiveClientID returns the client ID of c. It defaults to "<namespace>.<name>".
func (c *ApiClient) EffectiveClientID() string {
	return cmp.Or(c.Spec.ClientID, c.Namespace+"."+c.Name)
}

// EffectiveSecretName returns the name of the credentials Secret of c. It defaults to the name of
// c.
func (c *ApiClient) EffectiveSecretName() string {
	return cmp.Or(c.GeneratedSecret().SecretName, c.Name)
}

// ServiceAccounts returns the names of the service accounts in spec.identities.
func (s *ApiClientSpec) ServiceAccounts() []string {
	var names []string
	for _, i := range s.Identities {
		if i.ServiceAccount.Name != "" {
			names = append(names, i.ServiceAccount.Name)
		}
	}
	return names
}

// Issuers returns the names of the issuers whose tokens authenticate the client, sorted:
// IssuerKubernetes for service accounts, and names of issuers in the Realm.
func (s *ApiClientSpec) Issuers() []string {
	var names []string
	for _, i := range s.Identities {
		names = append(names, i.EffectiveIssuer())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// EffectiveIssuer returns the name of the issuer whose tokens match the identity. For a service
// account, it is IssuerKubernetes.
func (i *Identity) EffectiveIssuer() string {
	if i.ServiceAccount.Name != "" {
		return IssuerKubernetes
	}
	return i.Issuer
}

// GeneratesSecret reports whether the operator generates the client secret of c.
func (c *ApiClient) GeneratesSecret() bool {
	return c.Spec.Secret != nil && c.Spec.Secret.Generated != nil
}

// GeneratedSecret returns the configuration of the generated secret of c. If the secret is not
// generated, it returns the zero value, as for "generated: {}".
func (c *ApiClient) GeneratedSecret() GeneratedSecret {
	if !c.GeneratesSecret() {
		return GeneratedSecret{}
	}
	return *c.Spec.Secret.Generated
}

// EffectiveKey returns the data key of the client secret. It defaults to client_secret.
func (r SecretKeyReference) EffectiveKey() string {
	return cmp.Or(string(r.Key), SecretKeyClientSecret)
}

// EffectiveKey returns the data key of the hash. It defaults to hash.
func (r HashSecretReference) EffectiveKey() string {
	return cmp.Or(string(r.Key), SecretKeyHash)
}

// EffectiveOverlap returns how long the old value stays valid after a change. It defaults to zero.
func (p *ProvidedSecret) EffectiveOverlap() time.Duration {
	if p.Overlap == nil {
		return 0
	}
	return p.Overlap.Duration
}

// EffectiveOverlap returns how long a secret stays valid after its successor was delivered. It
// defaults to a day, or half the rotation interval if that is shorter. With expireWhenUnused, it is the
// maximum.
func (r SecretRotation) EffectiveOverlap() time.Duration {
	switch {
	case r.ExpireWhenUnused != nil && r.ExpireWhenUnused.Max != nil:
		return r.ExpireWhenUnused.Max.Duration
	case r.Overlap != nil:
		return r.Overlap.Duration
	case r.Interval != nil:
		return min(24*time.Hour, r.Interval.Duration/2)
	}
	return 24 * time.Hour
}

// DataKey returns the name in the credentials Secret of key, one of the SecretKey constants. It
// defaults to key itself.
func (s GeneratedSecret) DataKey(key string) string {
	return cmp.Or(string(s.Keys[key]), key)
}

// LabelSelector returns s as a Kubernetes label selector. The result is valid for every selector
// that passed the API server's validation.
func (s *NamespaceSelector) LabelSelector() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	for key, value := range s.MatchLabels {
		metav1.AddLabelToSelector(selector, key, string(value))
	}
	for _, r := range s.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: string(r.Key), Operator: r.Operator}
		for _, value := range r.Values {
			requirement.Values = append(requirement.Values, string(value))
		}
		selector.MatchExpressions = append(selector.MatchExpressions, requirement)
	}
	return selector
}

// Includes reports whether n includes a namespace with the given labels. If namespaceLabels is nil,
// the labels are unknown and no selector matches: DoesNotExist and NotIn would otherwise include every
// unknown namespace. An existing namespace has at least the label with its name.
func (n *GrantedNamespaces) Includes(namespace string, namespaceLabels map[string]string) bool {
	switch {
	case n.From == NamespacesFromAll:
		return true
	case n.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(n.Selector.LabelSelector())
		return err == nil && namespaceLabels != nil && selector.Matches(labels.Set(namespaceLabels))
	}
	return slices.Contains(n.Names, namespace)
}

// GrantAll in the scopes, audiences, or issuers of a Grant stands for all that the Realm defines.
const GrantAll = "*"

// AllowsScope reports whether an ApiClient that the grant covers can have a scope.
func (g *Grant) AllowsScope(scope string) bool { return allows(g.Scopes, scope) }

// AllowsAudience reports whether an ApiClient that the grant covers can have an audience.
func (g *Grant) AllowsAudience(audience string) bool { return allows(g.Audiences, audience) }

// AllowsIssuer reports whether an ApiClient that the grant covers can use an issuer, given by its
// name in the Realm or as IssuerKubernetes.
func (g *Grant) AllowsIssuer(name string) bool { return allows(g.Issuers, name) }

func allows(granted []string, value string) bool {
	return slices.Contains(granted, GrantAll) || slices.Contains(granted, value)
}

// EffectiveMaxDepth returns the maximum number of actors in a token of the rule. It defaults to 1.
func (e *Exchange) EffectiveMaxDepth() int { return int(max(e.MaxDepth, 1)) }

// EffectiveUse returns what the rule accepts the tokens of the issuer for. It defaults to ExchangeUseSubject.
func (i *ExchangeIssuer) EffectiveUse() ExchangeUse { return cmp.Or(i.Use, ExchangeUseSubject) }

// EffectiveUses returns what the issuer's tokens are accepted for. It defaults to
// IssuerUseClientAuthentication.
func (t *TrustedIssuer) EffectiveUses() []IssuerUse {
	if len(t.Uses) == 0 {
		return []IssuerUse{IssuerUseClientAuthentication}
	}
	return t.Uses
}

// Accepts reports whether the issuer's tokens are accepted for a use.
func (t *TrustedIssuer) Accepts(use IssuerUse) bool { return slices.Contains(t.EffectiveUses(), use) }

// Granted returns n in the form that grants have.
func (n *ExchangeNamespaces) Granted() *GrantedNamespaces {
	granted := &GrantedNamespaces{From: n.From, Names: n.Names}
	if n.Selector != nil {
		granted.Selector = &NamespaceSelector{MatchLabels: n.Selector.MatchLabels}
	}
	return granted
}

// EffectiveAudiences returns the audiences of the realm with the given issuer. They default to the issuer.
func (s *RealmSpec) EffectiveAudiences(issuer string) []string {
	if len(s.Audiences) == 0 {
		return []string{issuer}
	}
	return s.Audiences
}

// TrustedIssuer returns the trusted issuer with the given name, or nil.
func (s *RealmSpec) TrustedIssuer(name string) *TrustedIssuer {
	i := slices.IndexFunc(s.TrustedIssuers, func(t TrustedIssuer) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.TrustedIssuers[i]
}

// RequiresDPoP reports whether the sender constraint of the grant applies to a client with the given
// scopes, delegated ones too, in its namespaces. One scope of the grant is enough, even if another grant
// covers the client: otherwise, a client could get rid of the constraint by requesting something more.
func (g *Grant) RequiresDPoP(scopes []string) bool {
	return g.SenderConstraint == SenderConstraintDPoP && (len(scopes) == 0 || slices.ContainsFunc(scopes, g.AllowsScope))
}

// AllScopes returns what scopes and delegatedScopes list, sorted and without duplicates. A grant must allow
// all of it.
func (s *ApiClientSpec) AllScopes() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat([]string(s.Scopes), []string(s.DelegatedScopes)))))
}
