package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Grant allows the ApiClients in some namespaces to use a Realm, and limits what they can request.
type Grant struct {
	// name identifies the grant in messages: at most 63 lowercase letters, digits, and hyphens,
	// with a letter or digit at both ends. It must be unique in the realm.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.grants.name must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +required
	Name string `json:"name,omitempty"`

	// namespaces selects the namespaces whose ApiClients the grant covers. Exactly one of from,
	// names, and selector must be set.
	// +required
	Namespaces GrantedNamespaces `json:"namespaces,omitzero"` //nolint:kubeapilinter // A rule requires one of its fields.

	// scopes lists the scopes that an ApiClient can have. "*" stands for every scope of the realm.
	// It can have at most 32 entries of at most 128 characters; a client with more scopes needs
	// "*". Scopes that the realm does not define have no effect. If unset or empty, the grant
	// covers only ApiClients without scopes.
	// +optional
	Scopes GrantedScopes `json:"scopes,omitempty"`

	// audiences lists the audiences that an ApiClient can have, and whose tokens it can introspect. "*"
	// stands for every audience of the realm. It must have 1 to 16 entries of at most 256 characters,
	// because every token has an audience. Audiences that the realm does not define have no effect.
	// +required
	Audiences GrantedAudiences `json:"audiences,omitempty"`

	// clientIDs lists the values that an ApiClient can have in spec.clientID. It can have at most
	// 16 entries of at most 256 characters. An entry that ends in "*" is a prefix, and "*" alone
	// covers every client ID. A prefix does not cover the default client IDs of other namespaces:
	// those that begin with the name of another existing namespace and a dot. An ApiClient that
	// already holds such a client ID keeps it. The default client ID "<namespace>.<name>" needs no
	// entry. If unset or empty, the grant covers only ApiClients without spec.clientID.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^([!-$&-),-9;-~]+[*]?|[*])$')`,message="spec.grants.clientIDs must contain client IDs or prefixes: printable ASCII characters except space, colon, percent sign, and plus sign, with an asterisk only at the end"
	// +listType=atomic
	// +optional
	ClientIDs []string `json:"clientIDs,omitempty"`

	// issuers lists the names of the issuers that spec.identities of an ApiClient can use, at most 17:
	// names from spec.trustedIssuers, and "kubernetes" for the service accounts of this cluster. "*"
	// stands for all of them. Names that the realm does not define have no effect. If unset or empty,
	// the grant covers only ApiClients without identities.
	// +kubebuilder:validation:MaxItems=17
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?|[*])$')`,message="spec.grants.issuers must contain names of issuers, not URLs: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends; or an asterisk for all issuers"
	// +listType=atomic
	// +optional
	Issuers []string `json:"issuers,omitempty"`

	// senderConstraint requires that tokens are bound to a key. It applies to every ApiClient in
	// the namespaces of the grant that lists one of the grant's scopes, in scopes or delegatedScopes, or
	// lists none, even if another grant covers the ApiClient. DPoP requires a DPoP proof (RFC 9449) in every token
	// request and every API request with such a token. If unset, this grant does not require it.
	// +optional
	SenderConstraint SenderConstraint `json:"senderConstraint,omitempty"`
}

// GrantedNamespaces is a set of namespaces. Exactly one member must be set.
//
// +kubebuilder:validation:XValidation:rule=`[has(self.from), has(self.names), has(self.selector)].exists_one(member, member)`,messageExpression="'must have exactly one of from, names, and selector, for example names: [acme-apps] or from: All, but it has ' + (has(self.from) ? (has(self.names) ? (has(self.selector) ? 'all of them' : 'from and names') : 'from and selector') : (has(self.names) ? 'names and selector' : 'none'))"
type GrantedNamespaces struct {
	// from is All for every namespace, including those that are created later. If unset, names or
	// selector must be set.
	// +optional
	From NamespacesFrom `json:"from,omitempty"`

	// names lists namespaces. It must have 1 to 64 entries of at most 63 characters. The namespaces
	// do not need to exist yet. If unset, from or selector must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="must contain namespace names: lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +listType=atomic
	// +optional
	Names []string `json:"names,omitempty"`

	// selector selects namespaces by their labels. Anyone who can change the labels of a namespace
	// can add it to the set. If unset, from or names must be set.
	// +optional
	Selector *NamespaceSelector `json:"selector,omitempty"`
}

// NamespacesFrom is a set of namespaces that needs no further configuration.
//
// +kubebuilder:validation:Enum=All
type NamespacesFrom string

// NamespacesFromAll is the set of all namespaces.
const NamespacesFromAll NamespacesFrom = "All"

// Scopes is a set of scope tokens (RFC 6749, section 3.3). "*" is not a scope, because it stands for
// every scope in a grant.
//
// +kubebuilder:validation:MaxItems=256
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=128
// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[!#-\[\]-~]+$')`,message="scopes must contain scope tokens (RFC 6749, section 3.3): printable ASCII characters except space, double quote, and backslash; list each scope as an entry of its own"
// +kubebuilder:validation:items:XValidation:rule=`self != '*'`,message="scopes must not contain an asterisk alone, which stands for every scope in a grant; list the scopes"
// +listType=set
type Scopes []string

// DelegatedScopes is a smaller set of scope tokens, for the same values as Scopes.
//
// +kubebuilder:validation:MaxItems=64
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=128
// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[!#-\[\]-~]+$')`,message="scopes must contain scope tokens (RFC 6749, section 3.3): printable ASCII characters except space, double quote, and backslash; list each scope as an entry of its own"
// +kubebuilder:validation:items:XValidation:rule=`self != '*'`,message="scopes must not contain an asterisk alone, which stands for every scope in a grant; list the scopes"
// +listType=set
type DelegatedScopes []string

// GrantedScopes lists scopes. "*" stands for every scope of the realm.
//
// +kubebuilder:validation:MaxItems=32
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=128
// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[!#-\[\]-~]+$')`,message="scopes must contain scope tokens (RFC 6749, section 3.3): printable ASCII characters except space, double quote, and backslash; list each scope as an entry of its own"
// +listType=atomic
type GrantedScopes []string

// Audiences is a set of audiences: absolute URIs without a fragment (RFC 8707, section 2), or names
// without a colon (RFC 7519, section 2). "*" is not an audience, because it stands for every audience
// in a grant.
//
// +kubebuilder:validation:MaxItems=16
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=256
// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$")`,message="audiences must contain absolute URIs without a fragment, or names: only characters allowed by RFC 3986, without #"
// +kubebuilder:validation:items:XValidation:rule=`!self.contains(':') || (self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*:.') && isURL(self))`,message="audiences must contain absolute URIs or names: a value with a colon must be an absolute URI"
// +kubebuilder:validation:items:XValidation:rule=`self != '*'`,message="audiences must not contain an asterisk alone, which stands for every audience in a grant; list the audiences"
// +listType=set
type Audiences []string

// GrantedAudiences lists audiences. "*" stands for every audience of the realm.
//
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=16
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=256
// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$")`,message="audiences must contain absolute URIs without a fragment, or names: only characters allowed by RFC 3986, without #"
// +kubebuilder:validation:items:XValidation:rule=`!self.contains(':') || (self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*:.') && isURL(self))`,message="audiences must contain absolute URIs or names: a value with a colon must be an absolute URI"
// +listType=atomic
type GrantedAudiences []string

// NamespaceSelector selects namespaces by their labels. It has the semantics of a Kubernetes label
// selector: a namespace must meet all requirements of matchLabels and matchExpressions. Unlike a
// label selector it has size limits, which allow the API server to validate it completely.
//
// +kubebuilder:validation:XValidation:rule=`(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)`,message="must have at least one label or expression; to select every namespace, use from: All"
type NamespaceSelector struct {
	// matchLabels lists labels that a namespace must have with exactly these values. It can have at
	// most 4 entries. If unset or empty, no labels are required.
	// +kubebuilder:validation:MaxProperties=4
	// +optional
	MatchLabels Labels `json:"matchLabels,omitempty"`

	// matchExpressions lists further requirements that the labels of a namespace must meet. It can
	// have at most 4 entries. If unset or empty, there are no further requirements.
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	// +optional
	MatchExpressions []NamespaceSelectorRequirement `json:"matchExpressions,omitempty"`
}

// NamespaceSelectorRequirement is a requirement on the value of one label.
//
// +kubebuilder:validation:XValidation:rule=`(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)`,fieldPath=".values",messageExpression="'must be set if and only if operator is In or NotIn; operator is ' + self.operator"
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

	// values lists label values. It can have at most 8 entries. Required if operator is In or
	// NotIn; must be unset otherwise.
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}
