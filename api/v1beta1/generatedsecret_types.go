package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeneratedSecret configures a client secret that the operator generates and the credentials Secret
// that contains it. The credentials Secret has the type Opaque, is deleted with the ApiClient, and
// contains everything that a workload needs to get a token.
//
// +kubebuilder:validation:XValidation:rule=`has(self.secretName) == has(oldSelf.secretName) && (!has(self.secretName) || self.secretName == oldSelf.secretName)`,fieldPath=".secretName",messageExpression="'spec.secret.generated.secretName is immutable (it cannot be changed, added, or removed); it is ' + (has(oldSelf.secretName) ? oldSelf.secretName : 'unset') + '; create another ApiClient instead'"
type GeneratedSecret struct {
	// secretName is the name of the credentials Secret, at most 253 characters. If a Secret with
	// that name exists and the client does not own it, the operator does not modify it and the
	// client is not Accepted (SecretConflict). The exception is a Secret without data and without
	// owner that has the label auth.realmkeeper.dev/client-secret: generated, which becomes the
	// credentials Secret and keeps its metadata. secretName is immutable while the secret is
	// generated, and cannot be added or removed later. It must not start with sh.helm.release.,
	// because Helm would treat the Secret as a release. Defaults to the name of the ApiClient.
	// +kubebuilder:validation:XValidation:rule=`!self.startsWith('sh.helm.release.')`,message="spec.secret.generated.secretName must not start with sh.helm.release., because Helm would treat the Secret as a release"
	// +optional
	SecretName DNSSubdomain `json:"secretName,omitempty"`

	// template is metadata that is added to the credentials Secret. If unset or empty, the operator
	// adds only its own metadata.
	// +optional
	Template SecretTemplate `json:"template,omitzero"` //nolint:kubeapilinter // {} means the same as an unset field.

	// keys renames data keys of the credentials Secret for workloads that expect other names. It
	// maps the default name to the new name, as in "client_id: OAUTH_CLIENT_ID". The default names
	// are:
	//
	//   - client_id: the client ID
	//   - client_secret: the client secret
	//   - next_client_secret: the client secret that replaces it; present only during a rotation, until
	//     all token servers accept it
	//   - token_url: the token endpoint at the instance domain
	//   - cluster_token_url: the token endpoint at the token servers' Service, for workloads in
	//     this cluster
	//   - issuer: the issuer of the realm, which is the iss claim of its tokens
	//   - jwks_url: the URL of the realm's public keys
	//   - scope: the scopes of the client, separated by spaces
	//
	// The Secret also contains ca.crt if the instance manages the serving certificate itself. It is
	// the certificate authority of the token endpoint in PEM format, and always has this name.
	//
	// The resulting names must be unique, and must not be ca.crt. Keys that are not listed keep
	// their default names. If unset or empty, all keys have their default names.
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key in ['client_id', 'client_secret', 'next_client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope'])`,messageExpression=`'spec.secret.generated.keys can rename only client_id, client_secret, next_client_secret, token_url, cluster_token_url, issuer, jwks_url, and scope, not ' + self.filter(key, !(key in ['client_id', 'client_secret', 'next_client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope']))[0]`
	// +kubebuilder:validation:XValidation:rule=`['client_id', 'client_secret', 'next_client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].all(key, ['client_id', 'client_secret', 'next_client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].exists_one(other, (other in self ? self[other] : other) == (key in self ? self[key] : key)))`,messageExpression=`'spec.secret.generated.keys must result in a unique name for every key, including ca.crt and the keys that are not listed; conflicting key: ' + ['client_id', 'client_secret', 'next_client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].filter(key, !['client_id', 'client_secret', 'next_client_secret', 'token_url', 'cluster_token_url', 'issuer', 'jwks_url', 'scope', 'ca.crt'].exists_one(other, (other in self ? self[other] : other) == (key in self ? self[key] : key)))[0]`
	// +optional
	Keys map[string]SecretDataKey `json:"keys,omitempty"`

	// rotation configures when the secret is rotated. If unset, the secret stays valid until the
	// credentials Secret is deleted, which revokes it immediately.
	// +optional
	Rotation SecretRotation `json:"rotation,omitzero"` //nolint:kubeapilinter // {} means the same as an unset field.
}

// SecretRotation configures when a generated secret is replaced by a new one, and how long the old
// one stays valid.
//
// Every live token server accepts the new secret before it replaces the old one in the credentials
// Secret. Until then, it is in the key next_client_secret. Token servers continue to accept the old
// secret for the overlap, so that workloads have time to reload the Secret. A client has at most two
// valid secrets: no rotation starts while an old secret is still valid.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.overlap) || !has(self.expireWhenUnused)`,fieldPath=".expireWhenUnused",message="spec.secret.generated.rotation must not have both overlap, with which the old secret expires at a fixed time, and expireWhenUnused; remove one of them"
// +kubebuilder:validation:XValidation:rule=`!has(self.expireWhenUnused) || !has(self.interval) || !has(self.expireWhenUnused.max) || !self.expireWhenUnused.max.matches(r'^([0-9]{1,5}[hms]){1,3}$') || !self.interval.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self.expireWhenUnused.max) < duration(self.interval)`,fieldPath=".expireWhenUnused.max",messageExpression="'spec.secret.generated.rotation.expireWhenUnused.max must be shorter than spec.secret.generated.rotation.interval, which is ' + self.interval"
// +kubebuilder:validation:XValidation:rule=`!has(self.overlap) || !has(self.interval) || !self.overlap.matches(r'^([0-9]{1,5}[hms]){1,3}$') || !self.interval.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self.overlap) < duration(self.interval)`,fieldPath=".overlap",messageExpression="'spec.secret.generated.rotation.overlap must be shorter than spec.secret.generated.rotation.interval, which is ' + self.interval"
type SecretRotation struct {
	// interval is the age at which a secret is rotated, once the previous old secret has expired: a
	// duration of at least 1h in hours, minutes, and whole seconds, such as "720h". If unset,
	// secrets are not rotated because of their age.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self) >= duration('1h')`,message="spec.secret.generated.rotation.interval must be at least 1h"
	// +optional
	Interval *Duration `json:"interval,omitempty"`

	// overlap is how long the old secret stays valid after the new one has replaced it in the
	// credentials Secret: a duration shorter than interval, in hours, minutes, and whole seconds,
	// such as "24h". Choose an overlap longer than your workloads need to reload a changed Secret.
	// "0s" revokes the old secret immediately. overlap also applies to the secret that the client
	// had before spec.secret was changed to generated. Must be unset if expireWhenUnused is set.
	// Otherwise defaults to 24h, or half of interval if that is shorter.
	// +optional
	Overlap *Duration `json:"overlap,omitempty"`

	// expireWhenUnused keeps the old secret valid until workloads no longer use it, instead of for
	// a fixed overlap. This also applies to the secret that the client had before spec.secret was
	// changed to generated. If unset, overlap applies.
	// +optional
	ExpireWhenUnused *ExpireWhenUnused `json:"expireWhenUnused,omitempty"` //nolint:kubeapilinter // If it is nil, overlap applies.

	// rotationRequestTime triggers a single rotation: when this time has passed, a secret that was
	// created before this time is replaced. It is an RFC 3339 time between the years 1000 and 2999, such as
	// "2031-12-31T23:59:59Z". Fractions of a second are ignored. A rotation waits until the
	// previous old secret has expired. Newer secrets are not affected, so the field can stay in Git
	// permanently; set a later time to rotate again. If unset, no such rotation takes place.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	RotationRequestTime *metav1.Time `json:"rotationRequestTime,omitempty"`
}

// ExpireWhenUnused lets an old secret expire when it has been unused for some time. While it is in
// use, the OldSecretInUse condition and a daily Event report it.
//
// +kubebuilder:validation:XValidation:rule=`!self.after.matches(r'^([0-9]{1,5}[hms]){1,3}$') || !self.max.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self.after) <= duration(self.max)`,fieldPath=".after",messageExpression="'spec.secret.generated.rotation.expireWhenUnused.after must not be longer than spec.secret.generated.rotation.expireWhenUnused.max, which is ' + self.max"
type ExpireWhenUnused struct {
	// after is how long the old secret must have been unused before it expires: a duration of at
	// least 1h in hours, minutes, and whole seconds, such as "24h". Choose one that is longer than
	// the time between two token requests of your slowest workload. The operator waits at least the
	// token lifetime of the client plus twice usage.resolution of the instance configuration,
	// because last uses are not known more precisely. The resolution is 1h by default.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self) >= duration('1h')`,message="spec.secret.generated.rotation.expireWhenUnused.after must be at least 1h"
	// +required
	After *Duration `json:"after,omitempty"`

	// max is how long the old secret stays valid at most, even if it is in use. It is a duration in
	// hours, minutes, and whole seconds, such as "720h". It must not be shorter than after, and
	// must be shorter than interval.
	// +required
	Max *Duration `json:"max,omitempty"`
}

// SecretTemplate is metadata for a Secret that the operator creates.
type SecretTemplate struct {
	// labels lists labels for the Secret. It can have at most 16 entries. Other programs select
	// Secrets by their labels, so only keys with the prefix app.kubernetes.io/ and the keys app,
	// component, env, environment, project, team, and tier are allowed. If unset or empty, no
	// labels are added.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key.startsWith('app.kubernetes.io/') || key in ['app', 'component', 'env', 'environment', 'project', 'team', 'tier'])`,messageExpression=`'spec.secret.generated.template.labels must not have the key ' + self.filter(key, !(key.startsWith('app.kubernetes.io/') || key in ['app', 'component', 'env', 'environment', 'project', 'team', 'tier']))[0] + '; other programs select Secrets by their labels, so only keys with the prefix app.kubernetes.io/ and the keys app, component, env, environment, project, team, and tier are allowed'`
	// +optional
	Labels Labels `json:"labels,omitempty"`

	// annotations lists annotations for the Secret. It can have at most 16 entries, with values of
	// at most 4096 characters. Other programs act on annotations with a prefix, so only keys
	// without a prefix and keys with the prefix app.kubernetes.io/ are allowed. If unset or empty,
	// no annotations are added.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(key, !key.contains('/') || key.startsWith('app.kubernetes.io/'))`,messageExpression=`'spec.secret.generated.template.annotations must not have the key ' + self.filter(key, key.contains('/') && !key.startsWith('app.kubernetes.io/'))[0] + '; other programs act on annotations with a prefix, so only keys without a prefix and keys with the prefix app.kubernetes.io/ are allowed'`
	// +kubebuilder:validation:XValidation:rule=`self.all(key, key.matches(r'^([^/]*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))`,messageExpression=`'spec.secret.generated.template.annotations must have valid annotation keys (after the prefix, at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends), not ' + self.filter(key, !key.matches(r'^([^/]*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))[0]`
	// +optional
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// AnnotationValue is an annotation value.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// SecretDataKey is a data key of a Secret: letters, digits, dots, underscores, and hyphens. It must
// not be "." or begin with "..".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._-]+$') && self != '.' && !self.startsWith('..')`,message="a Secret data key must have only letters, digits, ., _, and -, and must not be . or begin with .."
type SecretDataKey string

// SecretKeyHash is the default name of the data key in a Secret that contains the hash of a client
// secret.
const SecretKeyHash = "hash"

// The default names of the data keys in a credentials Secret.
const (
	// SecretKeyClientID is the key of the client ID.
	SecretKeyClientID = "client_id"

	// SecretKeyClientSecret is the key of the client secret.
	SecretKeyClientSecret = "client_secret"

	// SecretKeyNextClientSecret is the key of the client secret that replaces the current one. It is
	// present only during a rotation. Workloads must not use it before it is under the current key.
	SecretKeyNextClientSecret = "next_client_secret"

	// SecretKeyTokenURL is the key of the token endpoint at the instance domain.
	SecretKeyTokenURL = "token_url"

	// SecretKeyClusterTokenURL is the key of the token endpoint at the token servers' Service, for
	// workloads in this cluster.
	SecretKeyClusterTokenURL = "cluster_token_url"

	// SecretKeyIssuer is the key of the realm's issuer, which is the iss claim of its tokens.
	SecretKeyIssuer = "issuer"

	// SecretKeyJWKSURL is the key of the URL of the realm's public keys.
	SecretKeyJWKSURL = "jwks_url"

	// SecretKeyScope is the key of the client's scopes, separated by spaces.
	SecretKeyScope = "scope"

	// SecretKeyCACrt is the key of the token endpoint's certificate authority in PEM format. It is
	// present only if the instance manages the serving certificate itself, and cannot be renamed.
	SecretKeyCACrt = "ca.crt"
)
