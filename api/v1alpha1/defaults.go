package v1alpha1

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GetConditions returns the conditions of the realm.
func (r *Realm) GetConditions() []metav1.Condition { return r.Status.Conditions }

// GetConditions returns the conditions of the client.
func (c *ApiClient) GetConditions() []metav1.Condition { return c.Status.Conditions }

// EffectiveAlgorithm returns the algorithm that new keys of the realm have: ES256 where
// the spec is silent.
func (s Signing) EffectiveAlgorithm() SigningAlgorithm {
	return cmp.Or(s.Algorithm, SigningAlgorithmES256)
}

// EffectiveRotationInterval returns how long a key of the realm signs: 30 days where the
// spec is silent.
func (s Signing) EffectiveRotationInterval() time.Duration {
	if s.RotationInterval == nil {
		return 720 * time.Hour
	}
	return s.RotationInterval.Duration
}

// EffectivePublishAhead returns how long a key of the realm is published before it signs:
// where the spec is silent an hour, or half the interval where that is shorter.
func (s Signing) EffectivePublishAhead() time.Duration {
	if s.PublishAhead == nil {
		return min(time.Hour, s.EffectiveRotationInterval()/2)
	}
	return s.PublishAhead.Duration
}

// EffectiveClientID returns the client id of c: "<namespace>.<name>" where the spec is
// silent.
func (c *ApiClient) EffectiveClientID() string {
	return cmp.Or(c.Spec.ClientID, c.Namespace+"."+c.Name)
}

// EffectiveSecretName returns the name of the consumer Secret of c: that of c where the
// spec is silent.
func (c *ApiClient) EffectiveSecretName() string {
	return cmp.Or(c.GeneratedSecret().SecretName, c.Name)
}

// GeneratesSecret reports whether the operator makes the client secret of c: where the spec
// asks for it, or says of no other way to authenticate.
func (c *ApiClient) GeneratesSecret() bool {
	if c.Spec.Secret != nil {
		return c.Spec.Secret.Generated != nil
	}
	return len(c.Spec.PublicKeys) == 0 && len(c.Spec.ServiceAccounts) == 0
}

// GeneratedSecret returns how the generated secret of c is handed out. Without
// spec.secret that is the zero value, as for "generated: {}".
func (c *ApiClient) GeneratedSecret() GeneratedSecret {
	if c.Spec.Secret == nil || c.Spec.Secret.Generated == nil {
		return GeneratedSecret{}
	}
	return *c.Spec.Secret.Generated
}

// EffectiveKey returns the data key that holds the client secret: client_secret where the
// spec is silent.
func (r SecretKeyReference) EffectiveKey() string {
	return cmp.Or(string(r.Key), SecretKeyClientSecret)
}

// EffectiveOverlap returns how long the old value stays valid after a change: not at all
// where the spec is silent.
func (p *ProvidedSecret) EffectiveOverlap() time.Duration {
	if p.Overlap == nil {
		return 0
	}
	return p.Overlap.Duration
}

// EffectiveOverlap returns how long a secret stays valid beside its successor: where the
// spec is silent a day, or half the interval where that is shorter.
func (r SecretRotation) EffectiveOverlap() time.Duration {
	switch {
	case r.Overlap != nil:
		return r.Overlap.Duration
	case r.Interval != nil:
		return min(24*time.Hour, r.Interval.Duration/2)
	}
	return 24 * time.Hour
}

// DataKey returns the key of the consumer Secret that key, one of the SecretKey
// constants, is renamed to: key itself where the spec is silent.
func (s GeneratedSecret) DataKey(key string) string {
	return cmp.Or(string(s.Keys[key]), key)
}

// LabelSelector returns s as the label selector of Kubernetes that it reads as. What the
// API server let pass is always a valid one.
func (s *NamespaceSelector) LabelSelector() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	for key, value := range s.MatchLabels {
		metav1.AddLabelToSelector(selector, key, string(value))
	}
	for _, r := range s.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: r.Operator, Values: r.Values,
		})
	}
	return selector
}
