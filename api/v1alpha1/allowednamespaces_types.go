package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespacesFrom selects how a Realm specifies the namespaces that it allows.
//
// +kubebuilder:validation:Enum=All;Names;Selector
type NamespacesFrom string

const (
	// NamespacesFromAll allows all namespaces.
	NamespacesFromAll NamespacesFrom = "All"

	// NamespacesFromNames allows the namespaces listed in names.
	NamespacesFromNames NamespacesFrom = "Names"

	// NamespacesFromSelector allows the namespaces whose labels match selector.
	NamespacesFromSelector NamespacesFrom = "Selector"
)

// AllowedNamespaces is a set of namespaces.
//
// +union
// +kubebuilder:validation:XValidation:rule=`has(self.names) == (self.from == 'Names')`,fieldPath=".names",messageExpression="'spec.allowedNamespaces.names must be set if and only if from is Names; from is ' + self.from"
// +kubebuilder:validation:XValidation:rule=`has(self.selector) == (self.from == 'Selector')`,fieldPath=".selector",messageExpression="'spec.allowedNamespaces.selector must be set if and only if from is Selector; from is ' + self.from"
type AllowedNamespaces struct {
	// from selects which namespaces are allowed. All allows every namespace, Names allows the
	// namespaces listed in names, and Selector allows the namespaces whose labels match selector.
	// +unionDiscriminator
	// +required
	From NamespacesFrom `json:"from,omitempty"`

	// names lists the allowed namespaces. It must have 1 to 256 entries. The namespaces do not need
	// to exist yet. Required if from is Names; must be unset otherwise.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.allowedNamespaces.names must contain namespace names: lowercase letters, digits, and inner hyphens"
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`

	// selector selects the allowed namespaces by their labels. To select a namespace by name, use
	// the label kubernetes.io/metadata.name, which every namespace has. Required if from is
	// Selector; must be unset otherwise.
	// +optional
	Selector *NamespaceSelector `json:"selector,omitempty"`
}

// NamespaceSelector selects namespaces by their labels. It has the semantics of a Kubernetes label
// selector: a namespace must meet all requirements of matchLabels and matchExpressions. Unlike a
// label selector it has size limits, which allow the API server to validate it completely.
//
// +kubebuilder:validation:XValidation:rule=`(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)`,message="spec.allowedNamespaces.selector must have at least one label or expression; to allow every namespace, set from to All"
type NamespaceSelector struct {
	// matchLabels lists labels that a namespace must have with exactly these values. It can have at
	// most 16 entries. If unset, no labels are required.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))`,messageExpression=`'spec.allowedNamespaces.selector.matchLabels must have valid label keys (an optional DNS prefix and a slash, then at most 63 letters, digits, and inner . _ -), not ' + self.filter(key, !(key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')))[0]`
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions lists further requirements that the labels of a namespace must meet. It can
	// have at most 16 entries. If unset, there are no further requirements.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []NamespaceSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is a label value: empty, or at most 63 letters, digits, dots, underscores, and hyphens
// that begin and end with a letter or digit.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$')`,message="a label value must have at most 63 letters, digits, and inner . _ -"
type LabelValue string

// NamespaceSelectorRequirement is a requirement on the value of one label.
//
// +kubebuilder:validation:XValidation:rule=`(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)`,fieldPath=".values",messageExpression="'spec.allowedNamespaces.selector.matchExpressions.values must be set if and only if operator is In or NotIn; operator is ' + self.operator"
type NamespaceSelectorRequirement struct {
	// key is the label key.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')`,message="spec.allowedNamespaces.selector.matchExpressions.key must be a valid label key: an optional DNS prefix and a slash, then at most 63 letters, digits, and inner . _ -"
	// +required
	Key string `json:"key,omitempty"`

	// operator is the relation between the label and values. In requires that the label has one of
	// the values. NotIn requires that the label has none of them or is missing. Exists requires
	// that the label is present, and DoesNotExist that it is not.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	// +required
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`

	// values lists label values. It can have at most 64 entries. Required if operator is In or
	// NotIn; must be unset otherwise.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$')`,message="spec.allowedNamespaces.selector.matchExpressions.values must contain valid label values: at most 63 letters, digits, and inner . _ -"
	// +listType=set
	// +optional
	Values []string `json:"values,omitempty"`
}
