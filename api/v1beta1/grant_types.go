package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Grant allows the ApiClients in some namespaces to use a Realm, and limits what they can request.
type Grant struct {
	// name identifies the grant in messages: at most 63 lowercase letters, digits, and inner
	// hyphens. It must be unique in the realm.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.grants.name must have at most 63 lowercase letters, digits, and inner hyphens"
	// +required
	Name string `json:"name,omitempty"`

	// namespaces selects the namespaces whose ApiClients the grant covers.
	// +required
	Namespaces GrantedNamespaces `json:"namespaces,omitzero"` //nolint:kubeapilinter // A rule requires one of its fields.

	// scopes lists the scopes that an ApiClient can have. "*" stands for every scope of the realm.
	// It can have at most 256 entries of at most 128 characters. If unset or empty, the grant covers
	// only ApiClients without scopes.
	// +optional
	Scopes Scopes `json:"scopes,omitempty"`

	// audiences lists the audiences that an ApiClient can have, and whose tokens it can introspect.
	// It can have at most 16 entries of at most 256 characters. Audiences that the realm does not
	// define have no effect. Defaults to the audiences of the realm.
	// +optional
	Audiences Audiences `json:"audiences,omitempty"`

	// clientIDs lists the values that an ApiClient can have in spec.clientID, at most 64. An entry
	// that ends in "*" is a prefix. A prefix does not cover client IDs that begin with the name of
	// another existing namespace and a dot, because those are the default client IDs of that
	// namespace; an ApiClient that already holds such a client ID keeps it. The default client ID
	// "<namespace>.<name>" needs no entry. If unset or empty, the grant covers only ApiClients
	// without spec.clientID.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^([!-$&-),-9;-~]+[*]?|[*])$')`,message="spec.grants.clientIDs must contain client IDs or prefixes: printable ASCII characters except space, colon, percent sign, and plus sign, with an asterisk only at the end"
	// +listType=set
	// +optional
	ClientIDs []string `json:"clientIDs,omitempty"`

	// issuers lists 1 to 17 names of issuers that spec.federatedIdentities and spec.serviceAccounts
	// of an ApiClient can use: names from spec.trustedIssuers, and "kubernetes" for the service
	// accounts of this cluster. Names that the realm does not define have no effect. If unset, an
	// ApiClient can use every issuer of the realm and the service accounts of its namespace.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=17
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.grants.issuers must contain names of issuers, not URLs: at most 63 lowercase letters, digits, and inner hyphens"
	// +listType=set
	// +optional
	Issuers []string `json:"issuers,omitempty"`

	// senderConstraint requires that tokens are bound to a key. It applies to every ApiClient in the
	// namespaces of the grant that has one of its scopes or no scope, even if another grant covers the
	// ApiClient. DPoP requires a DPoP proof (RFC 9449) in every token request and every API request
	// with such a token. If unset, the ApiClient decides.
	// +optional
	SenderConstraint SenderConstraint `json:"senderConstraint,omitempty"`
}

// GrantedNamespaces is a set of namespaces. Exactly one member must be set.
//
// +union
// +kubebuilder:validation:XValidation:rule=`[has(self.names), has(self.selector), has(self.all)].exists_one(member, member)`,message="spec.grants.namespaces must have exactly one of: names, selector, all. For example, names: [acme-apps] or all: {}"
type GrantedNamespaces struct {
	// names lists namespaces. It must have 1 to 128 entries. The namespaces do not need to exist
	// yet.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.grants.namespaces.names must contain namespace names: lowercase letters, digits, and inner hyphens"
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`

	// selector selects namespaces by their labels. Anyone who can change the labels of a namespace
	// can add it to the grant.
	// +optional
	Selector *NamespaceSelector `json:"selector,omitempty"`

	// all selects every namespace, including those that are created later.
	// +optional
	All *AllNamespaces `json:"all,omitempty"`
}

// AllNamespaces selects every namespace. It has no members; write it as {}.
type AllNamespaces struct{}

// ApiClientReference references an ApiClient in any namespace.
type ApiClientReference struct {
	// namespace is the namespace of the ApiClient.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the ApiClient.
	// +required
	Name DNSSubdomain `json:"name,omitempty"`
}

// Scopes is a set of scope tokens (RFC 6749, section 3.3).
//
// +kubebuilder:validation:MaxItems=256
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=128
// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[!#-\[\]-~]+$')`,message="scopes must contain scope tokens (RFC 6749, section 3.3): printable ASCII characters except space, double quote, and backslash"
// +listType=set
type Scopes []string

// Audiences is a set of audiences: absolute URIs without a fragment (RFC 8707, section 2), or names
// without a colon (RFC 7519, section 2).
//
// +kubebuilder:validation:MaxItems=16
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=256
// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$")`,message="audiences must contain absolute URIs without a fragment, or names: only characters allowed by RFC 3986, without #"
// +kubebuilder:validation:items:XValidation:rule=`!self.contains(':') || (self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*:.') && isURL(self))`,message="audiences must contain absolute URIs or names: a value with a colon must be an absolute URI"
// +listType=set
type Audiences []string

// NamespaceSelector selects namespaces by their labels. It has the semantics of a Kubernetes label
// selector: a namespace must meet all requirements of matchLabels and matchExpressions. Unlike a
// label selector it has size limits, which allow the API server to validate it completely.
//
// +kubebuilder:validation:XValidation:rule=`(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)`,message="spec.grants.namespaces.selector must have at least one label or expression; to select every namespace, use all: {}"
type NamespaceSelector struct {
	// matchLabels lists labels that a namespace must have with exactly these values. It can have at
	// most 8 entries. If unset, no labels are required.
	// +kubebuilder:validation:MaxProperties=8
	// +optional
	MatchLabels Labels `json:"matchLabels,omitempty"`

	// matchExpressions lists further requirements that the labels of a namespace must meet. It can
	// have at most 8 entries. If unset, there are no further requirements.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	MatchExpressions []NamespaceSelectorRequirement `json:"matchExpressions,omitempty"`
}

// NamespaceSelectorRequirement is a requirement on the value of one label.
//
// +kubebuilder:validation:XValidation:rule=`(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)`,fieldPath=".values",messageExpression="'spec.grants.namespaces.selector.matchExpressions.values must be set if and only if operator is In or NotIn; operator is ' + self.operator"
type NamespaceSelectorRequirement struct {
	// key is the label key.
	// +required
	Key LabelKey `json:"key,omitempty"`

	// operator is the relation between the label and values. In requires that the label has one of
	// the values. NotIn requires that the label has none of them or is missing. Exists requires
	// that the label is present, and DoesNotExist that it is not.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	// +required
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`

	// values lists label values. It can have at most 16 entries. Required if operator is In or
	// NotIn; must be unset otherwise.
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}
