package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespacesFrom says how a Realm names the namespaces that it allows.
//
// +kubebuilder:validation:Enum=All;Names;Selector
type NamespacesFrom string

const (
	// NamespacesFromAll allows every namespace.
	NamespacesFromAll NamespacesFrom = "All"

	// NamespacesFromNames allows the namespaces listed in names.
	NamespacesFromNames NamespacesFrom = "Names"

	// NamespacesFromSelector allows the namespaces whose labels match selector.
	NamespacesFromSelector NamespacesFrom = "Selector"
)

// AllowedNamespaces is a set of namespaces.
//
// +union
// +kubebuilder:validation:XValidation:rule=`has(self.names) == (self.from == 'Names')`,fieldPath=".names",messageExpression="'spec.allowedNamespaces.names must be set when from is Names, and only then; from is ' + self.from"
// +kubebuilder:validation:XValidation:rule=`has(self.selector) == (self.from == 'Selector')`,fieldPath=".selector",messageExpression="'spec.allowedNamespaces.selector must be set when from is Selector, and only then; from is ' + self.from"
type AllowedNamespaces struct {
	// from says which namespaces are allowed: with All every one, with Names those in
	// names, with Selector those whose labels match selector.
	// +unionDiscriminator
	// +required
	From NamespacesFrom `json:"from,omitempty"`

	// names are the allowed namespaces, at least 1 and at most 256. They need not exist
	// yet. Required when from is Names, and must be left out otherwise.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.allowedNamespaces.names must hold names of namespaces: lower-case letters, digits and inner hyphens"
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`

	// selector matches the labels of the allowed namespaces. The label
	// kubernetes.io/metadata.name, which every namespace carries, matches by name.
	// Required when from is Selector, and must be left out otherwise.
	// +optional
	Selector *NamespaceSelector `json:"selector,omitempty"`
}

// NamespaceSelector matches namespaces by their labels. It reads as the label selector
// of Kubernetes does, all requirements of matchLabels and matchExpressions joined by
// "and", but its parts are bounded, so that the API server checks them in full.
//
// +kubebuilder:validation:XValidation:rule=`(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)`,message="spec.allowedNamespaces.selector must hold a label or an expression; every namespace is allowed with from: All"
type NamespaceSelector struct {
	// matchLabels are labels that a namespace must have with these values, at most 16.
	// Left out, none.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))`,messageExpression=`'spec.allowedNamespaces.selector.matchLabels must have label keys (an optional DNS prefix and a slash, then at most 63 letters, digits and inner . _ -), not ' + self.filter(key, !(key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')))[0]`
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are further requirements that the labels of a namespace must meet,
	// at most 16. Left out, none.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []NamespaceSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label: at most 63 letters, digits, dots, underscores
// and hyphens, the first and last a letter or digit, or empty.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$')`,message="the value of a label must be at most 63 letters, digits and inner . _ -"
type LabelValue string

// NamespaceSelectorRequirement is a requirement that relates a label to values.
//
// +kubebuilder:validation:XValidation:rule=`(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)`,fieldPath=".values",messageExpression="'spec.allowedNamespaces.selector.matchExpressions.values must be set when operator is In or NotIn, and only then; operator is ' + self.operator"
type NamespaceSelectorRequirement struct {
	// key is the key of the label.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')`,message="spec.allowedNamespaces.selector.matchExpressions.key must be a label key: an optional DNS prefix and a slash, then at most 63 letters, digits and inner . _ -"
	// +required
	Key string `json:"key,omitempty"`

	// operator relates the label to values: with In its value is one of them, with NotIn
	// it is none of them or the label is missing, with Exists the label is there, with
	// DoesNotExist it isn't.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	// +required
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`

	// values are the values of the label, at most 64. Required when operator is In or
	// NotIn, and must be left out otherwise.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$')`,message="spec.allowedNamespaces.selector.matchExpressions.values must hold label values: at most 63 letters, digits and inner . _ -"
	// +listType=set
	// +optional
	Values []string `json:"values,omitempty"`
}
