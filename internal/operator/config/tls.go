package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TLS selects the source of the serving certificate. At most one field may be set.
type TLS struct {
	// Managed makes the operator manage a CA and a serving certificate. This is the default.
	Managed *ManagedTLS `json:"managed,omitempty"`
	// SecretName is the name of a Secret of type kubernetes.io/tls in the system namespace, such as
	// one that cert-manager creates.
	SecretName string `json:"secretName,omitempty"`
}

// ManagedTLS configures the managed CA.
type ManagedTLS struct {
	// Lifetime is the lifetime of a new CA: 24h to 87600h. The CA is renewed before it expires.
	// Defaults to 87600h, which is ten years.
	Lifetime metav1.Duration `json:"lifetime,omitzero"`
	// Overlap is how long the next CA is published before it signs: at least 1h, and at most an eighth
	// of the lifetime. Clients must load ca.crt again within this time. Defaults to a tenth of the
	// lifetime, which is a year.
	Overlap metav1.Duration `json:"overlap,omitzero"`
	// ClusterTrustBundle also publishes the CAs as a ClusterTrustBundle, for which the API server must
	// serve certificates.k8s.io/v1beta1. Defaults to false.
	ClusterTrustBundle bool `json:"clusterTrustBundle,omitempty"`
}

func (m *ManagedTLS) setDefaults() {
	if m.Lifetime.Duration == 0 {
		m.Lifetime.Duration = defaultCALifetime
	}
	if m.Overlap.Duration == 0 {
		m.Overlap.Duration = (m.Lifetime.Duration / defaultCAOverlaps).Truncate(time.Second)
	}
}

// PublishesTrustBundle reports whether the managed CA is published as a ClusterTrustBundle.
func (i *Instance) PublishesTrustBundle() bool {
	return i.TLS.Managed != nil && i.TLS.Managed.ClusterTrustBundle
}
