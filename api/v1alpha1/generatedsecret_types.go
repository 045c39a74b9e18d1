package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeneratedSecret is a client secret that the operator makes, and the Secret object
// that hands it out: the consumer Secret. It is of type Opaque, goes with the ApiClient,
// and holds all that a workload needs to get a token.
type GeneratedSecret struct {
	// secretName is the name of the consumer Secret, at most 253 characters. A Secret of
	// that name that isn't this client's is never touched; the client isn't Accepted then
	// (SecretConflict). It is immutable as long as the secret is generated. Left out, the name of the ApiClient; to write
	// out just that, or to leave it out again, is no change.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="spec.secret.generated.secretName must be the name of a Secret: lower-case letters, digits, and inner hyphens and dots"
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// template is metadata for the consumer Secret, besides the operator's own. Left out,
	// none.
	// +optional
	Template SecretTemplate `json:"template,omitzero"`

	// keys renames the data keys of the consumer Secret, for workloads that look for them
	// under other names: from the name that a key has by default to the one that it shall
	// have, as in "client_id: OAUTH_CLIENT_ID". By default they are
	//
	//   - client_id: the client id
	//   - client_secret: the client secret
	//   - token_url: the token endpoint under the instance domain
	//   - cluster_token_url: the token endpoint under the token servers' Service, for
	//     workloads of this cluster
	//   - issuer: the issuer of the realm, which is the iss claim of its tokens
	//   - jwks_url: the URL of the realm's public keys
	//   - scope: the scopes of the client, joined by spaces
	//   - ca.crt: the certificate authority of the token endpoint in PEM, only when the
	//     serving certificate is the instance's own
	//
	// No two may end up with the same name. A key that is left out keeps its name.
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key in ['client_id', 'client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'])`,messageExpression=`'spec.secret.generated.keys can rename client_id, client_secret, token_url, cluster_token_url, issuer, jwks_url, scope and ca.crt, not ' + self.filter(key, !(key in ['client_id', 'client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt']))[0]`
	// +kubebuilder:validation:XValidation:rule=`['client_id', 'client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].all(key, ['client_id', 'client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].exists_one(other, (other in self ? self[other] : other) == (key in self ? self[key] : key)))`,messageExpression=`'spec.secret.generated.keys must give every key a name of its own, those left out counted in; not so ' + ['client_id', 'client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].filter(key, !['client_id', 'client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].exists_one(other, (other in self ? self[other] : other) == (key in self ? self[key] : key)))[0]`
	// +optional
	Keys map[string]SecretDataKey `json:"keys,omitempty"`

	// rotation says when the secret is replaced by another. Left out, it stays until
	// someone deletes the consumer Secret, which ends it at once.
	// +optional
	Rotation SecretRotation `json:"rotation,omitzero"`
}

// SecretRotation says when a generated secret is replaced by another, and how long it stays
// valid beside it.
//
// Every live token server accepts the new secret before the consumer Secret gets it, and
// goes on accepting the old one for the overlap, in which workloads read the Secret again. A client has
// two secrets at most: while an old one is still valid, no rotation begins.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.overlap) || !has(self.interval) || !self.overlap.matches(r'^([0-9]{1,5}[hms]){1,3}$') || !self.interval.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self.overlap) < duration(self.interval)`,fieldPath=".overlap",messageExpression="'spec.secret.generated.rotation.overlap must be shorter than spec.secret.generated.rotation.interval, which is ' + self.interval"
type SecretRotation struct {
	// interval is how old a secret becomes before it is replaced, as a duration of at
	// least 1h in hours, minutes and whole seconds, such as "720h". Left out, age
	// doesn't matter.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="spec.secret.generated.rotation.interval must be a duration in hours, minutes and whole seconds, such as 720h"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self) >= duration('1h')`,message="spec.secret.generated.rotation.interval must be at least 1h"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// overlap is how long the old secret stays valid after the consumer Secret has got
	// the new one, as a duration shorter than interval in hours, minutes and whole
	// seconds, such as "24h". Choose it longer than workloads need to take up a changed
	// Secret; with "0s" the old secret ends at once. It also holds for the secret that
	// the client had before spec.secret came to be generated. Left out, 24h, or half of
	// interval where that is shorter.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="spec.secret.generated.rotation.overlap must be a duration in hours, minutes and whole seconds, such as 24h"
	// +optional
	Overlap *metav1.Duration `json:"overlap,omitempty"`

	// rotateAfter replaces, once, a secret that was made before this instant, as soon as
	// it has passed: an RFC 3339 time between the years 1000 and 2999, such as
	// "2031-12-31T23:59:59Z". A secret that is younger stays, so the field may stand in
	// Git for ever; a later instant rotates again. Fractions of a second don't count.
	// Left out, there is no such rotation.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	RotateAfter *metav1.Time `json:"rotateAfter,omitempty"`
}

// SecretTemplate is metadata for a Secret that the operator makes.
type SecretTemplate struct {
	// labels are labels for the Secret, at most 16. Those with the prefix
	// auth.realmkeeper.dev/ are the operator's own. Left out, none.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))`,messageExpression=`'spec.secret.generated.template.labels must have label keys (an optional DNS prefix and a slash, then at most 63 letters, digits and inner . _ -), not ' + self.filter(key, !(key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')))[0]`
	// +kubebuilder:validation:XValidation:rule=`self.all(key, !key.startsWith('auth.realmkeeper.dev/'))`,messageExpression=`'spec.secret.generated.template.labels must not use the prefix auth.realmkeeper.dev/, which is the operator\'s own, as in ' + self.filter(key, key.startsWith('auth.realmkeeper.dev/'))[0]`
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations are annotations for the Secret, at most 16, with values of at most 4096
	// characters. Those with the prefix auth.realmkeeper.dev/ are the operator's own.
	// Left out, none.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key.indexOf('/') <= 253 && key.lowerAscii().matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))`,messageExpression=`'spec.secret.generated.template.annotations must have annotation keys (an optional DNS prefix and a slash, then at most 63 letters, digits and inner . _ -), not ' + self.filter(key, !(key.indexOf('/') <= 253 && key.lowerAscii().matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')))[0]`
	// +kubebuilder:validation:XValidation:rule=`self.all(key, !key.lowerAscii().startsWith('auth.realmkeeper.dev/'))`,messageExpression=`'spec.secret.generated.template.annotations must not use the prefix auth.realmkeeper.dev/, which is the operator\'s own, as in ' + self.filter(key, key.lowerAscii().startsWith('auth.realmkeeper.dev/'))[0]`
	// +optional
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// SecretDataKey is a key of the data of a Secret: letters, digits, dots, underscores and
// hyphens, but not "." and nothing that begins with "..".
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._-]+$') && self != '.' && !self.startsWith('..')`,message="a data key of a Secret must be letters, digits, . _ and -, but not . or a leading .."
type SecretDataKey string

// The data keys of a consumer Secret, under the names that they have by default.
const (
	// SecretKeyClientID holds the client id.
	SecretKeyClientID = "client_id"

	// SecretKeyClientSecret holds the client secret.
	SecretKeyClientSecret = "client_secret"

	// SecretKeyTokenURL holds the token endpoint under the instance domain.
	SecretKeyTokenURL = "token_url"

	// SecretKeyClusterTokenURL holds the token endpoint under the token servers' Service,
	// for workloads of this cluster.
	SecretKeyClusterTokenURL = "cluster_token_url"

	// SecretKeyIssuer holds the issuer of the realm, which is the iss claim of its tokens.
	SecretKeyIssuer = "issuer"

	// SecretKeyJWKSURL holds the URL of the realm's public keys.
	SecretKeyJWKSURL = "jwks_url"

	// SecretKeyScope holds the scopes of the client, joined by spaces.
	SecretKeyScope = "scope"

	// SecretKeyCACrt holds the certificate authority of the token endpoint in PEM. The
	// Secret has it only when the serving certificate is the instance's own.
	SecretKeyCACrt = "ca.crt"
)
