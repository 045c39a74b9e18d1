package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstanceName is the name of the only Instance.
const InstanceName = "realmkeeper"

// Instance is the installation of Realmkeeper in this cluster: its version, its token servers, its
// certificate authority, and its key encryption. The operator creates the only Instance, named
// realmkeeper, and keeps its status up to date. It has no spec: the instance configuration
// configures the installation. It is in the ConfigMap realmkeeper-config in the system namespace.
//
// While no operator leads, the status is not updated. If you delete the Instance, the operator
// creates it again.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=realmkeeper
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Servers",type=integer,JSONPath=`.status.liveTokenServers`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.status.serviceURL`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule=`self.metadata.name == 'realmkeeper'`,message="metadata.name must be realmkeeper, because a cluster has only one Instance. Do not create it: the operator does"
type Instance struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard Kubernetes object metadata. The name must be realmkeeper.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// status is the observed state of the Instance. It is written by the operator.
	// +default={"observedGeneration":-1}
	// +optional
	Status InstanceStatus `json:"status,omitzero"` //nolint:kubeapilinter // It is never written as {}.
}

// InstanceList is a list of Instances.
//
// +kubebuilder:object:root=true
type InstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items lists the Instances.
	Items []Instance `json:"items"`
}

// InstanceStatus is the observed state of an Instance.
type InstanceStatus struct {
	// conditions describes the state of the instance. Ready is always present. CertificatesIssued is
	// present only with the managed CA, KMSConnected only while new signing keys are encrypted with a
	// KMS plugin, MemorySufficient only while it is False, and Reconciling only while it is True.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status reflects. It is -1 until the
	// operator has processed the object, so that tools do not report a new object as reconciled.
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"` //nolint:kubeapilinter // The value 0 does not occur.

	// version is the version of the operator that leads.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Version string `json:"version,omitempty"`

	// serviceURL is the base URL of the token service: https://api.<instance domain>, with a port
	// if it is not 443. The issuer of a Realm is this URL followed by a slash and the name of the
	// Realm.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ServiceURL string `json:"serviceURL,omitempty"`

	// systemNamespace is the namespace of the operator, the token servers, and their certificates.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SystemNamespace string `json:"systemNamespace,omitempty"`

	// recordsNamespace is the namespace of the records and of the heartbeat Leases of the token
	// servers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	RecordsNamespace string `json:"recordsNamespace,omitempty"`

	// liveTokenServers is the number of token servers in the state Current or Behind. Changes of Realms
	// and ApiClients wait for these token servers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LiveTokenServers *int32 `json:"liveTokenServers,omitempty"`

	// tokenServers describes at most 64 token servers. If there are more, those that are Current
	// are omitted first.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	TokenServers []TokenServerStatus `json:"tokenServers,omitempty"`

	// certificateAuthority describes the managed CA, which signs the certificate of the token servers.
	// Unset if the instance configuration has tls.secretName instead, and while there is no usable CA.
	// +optional
	CertificateAuthority *CertificateAuthorityStatus `json:"certificateAuthority,omitempty"`

	// keyEncryption describes the encryption of signing keys. Unset if the instance configuration has
	// no keyEncryption.kms.
	// +optional
	KeyEncryption *KeyEncryptionStatus `json:"keyEncryption,omitempty"` //nolint:kubeapilinter // A pointer, like certificateAuthority.
}

// TokenServerState is the state of a token server.
//
// +kubebuilder:validation:Enum=Current;Behind;Stale;Starting
type TokenServerState string

const (
	// TokenServerCurrent is the state of a token server that serves the latest records, or has
	// lagged behind them for less than 10 seconds.
	TokenServerCurrent TokenServerState = "Current"

	// TokenServerBehind is the state of a token server that lags behind the latest records, cannot
	// read some of them, or has not decrypted an active signing key.
	TokenServerBehind TokenServerState = "Behind"

	// TokenServerStale is the state of a token server that does not renew its heartbeat Lease. The
	// operator does not wait for it.
	TokenServerStale TokenServerState = "Stale"

	// TokenServerStarting is the state of a token server that has not loaded the records yet.
	TokenServerStarting TokenServerState = "Starting"
)

// TokenServerStatus describes a token server.
type TokenServerStatus struct {
	// name is the name of the token server's Pod in the system namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// version is the version of the token server that it reports. Unset if it reports none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Version string `json:"version,omitempty"`

	// state says whether the token server serves the latest records. Current means that it does, or
	// has lagged behind them for less than 10 seconds. Behind means that it lags behind them, cannot
	// read some of them, or has not decrypted an active signing key. Stale means that it does not
	// renew its heartbeat Lease, and Starting that it has not loaded the records yet.
	// +required
	State TokenServerState `json:"state,omitempty"`

	// message explains the state in at most 1024 characters. Unset if there is nothing to explain.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// heartbeatTime is the time of the last heartbeat on the clock of the token server. Set only if the
	// state is Stale.
	// +optional
	HeartbeatTime *metav1.Time `json:"heartbeatTime,omitempty"`
}

// CertificateAuthorityStatus describes the managed CA.
type CertificateAuthorityStatus struct {
	// expirationTime is the time at which the CA that signs expires. The operator replaces it before
	// that.
	// +required
	ExpirationTime metav1.Time `json:"expirationTime,omitzero"` //nolint:kubeapilinter // It is a string in JSON.

	// next describes the next CA, which ca.crt contains already. Unset until then.
	// +optional
	Next *NextCertificateAuthorityStatus `json:"next,omitempty"`
}

// NextCertificateAuthorityStatus describes the CA that replaces the current one.
type NextCertificateAuthorityStatus struct {
	// activationTime is the time from which the next CA signs. Clients must load ca.crt again before
	// that.
	// +required
	ActivationTime metav1.Time `json:"activationTime,omitzero"` //nolint:kubeapilinter // It is a string in JSON.

	// expirationTime is the time at which the next CA expires.
	// +required
	ExpirationTime metav1.Time `json:"expirationTime,omitzero"` //nolint:kubeapilinter // It is a string in JSON.
}

// KeyEncryptionMode says how new signing keys are stored.
//
// +kubebuilder:validation:Enum=Encrypt;Decrypt
type KeyEncryptionMode string

const (
	// KeyEncryptionEncrypt means that new signing keys are encrypted with the KMS plugin.
	KeyEncryptionEncrypt KeyEncryptionMode = "Encrypt"

	// KeyEncryptionDecrypt means that new signing keys are stored in plaintext, and that token servers
	// still decrypt earlier ones with the KMS plugin.
	KeyEncryptionDecrypt KeyEncryptionMode = "Decrypt"
)

// KeyEncryptionStatus describes the encryption of signing keys with a KMS plugin.
type KeyEncryptionStatus struct {
	// mode says how new signing keys are stored. Encrypt means that they are encrypted, and Decrypt
	// that they are stored in plaintext because keyEncryption.kms.decrypt is true.
	// +required
	Mode KeyEncryptionMode `json:"mode,omitempty"`

	// keyID is the ID of the key of the KMS with which the plugin encrypts, as the plugin reported it
	// last. Unset until it has, and if the mode is Decrypt.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	KeyID string `json:"keyID,omitempty"`
}
