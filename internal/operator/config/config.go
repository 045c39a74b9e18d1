// Package config reads the instance configuration: the one YAML file that says what this
// installation of Realmkeeper is. It is decoded strictly; a key that means nothing is an error.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	stream "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	apiVersion = "config.realmkeeper.dev/v1alpha1"
	kind       = "InstanceConfiguration"
)

// TokenServiceName is the name of the token service's Deployment, Service and what belongs to them.
const TokenServiceName = "realmkeeper-token-server"

// ErrInvalid says that a configuration can't be used; its message names the key.
var ErrInvalid = errors.New("instance configuration")

// Instance is the configuration of one installation.
type Instance struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// InstanceDomain is the domain of the installation; the service's address is "api." and it.
	InstanceDomain string `json:"instanceDomain"`
	// ExternalPort is the port in the service's address, 1 to 65535. Left out: 443, which doesn't show.
	ExternalPort int32 `json:"externalPort,omitempty"`

	Security    Security    `json:"security"`
	TokenServer TokenServer `json:"tokenServer,omitzero"`
	TLS         TLS         `json:"tls,omitzero"`
	// Testing is left out but in tests.
	Testing Testing `json:"testing,omitzero"`

	// SystemNamespace is where the operator keeps records and runs the token service. It
	// is no part of the file: the process says it.
	SystemNamespace string `json:"-"`
}

// Security holds what all realms are bound by.
type Security struct {
	// DefaultTokenLifetime is how long tokens of a realm are valid that says nothing: whole
	// seconds, 10s to 24h. Required.
	DefaultTokenLifetime metav1.Duration `json:"defaultTokenLifetime"`
	// MaximumTokenLifetime is the longest that a realm may set: whole seconds, from the default to 24h.
	// Left out: 24h.
	MaximumTokenLifetime metav1.Duration `json:"maximumTokenLifetime,omitzero"`
}

// TokenServer says how the operator runs the token servers.
type TokenServer struct {
	// Image is left out to run the operator's own image, so that versions never skew.
	Image           string            `json:"image,omitempty"`
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets are Secrets in the system namespace with what the registry asks for.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Replicas is the number of token servers, at least 1. Left out: 2. What is set through the
	// scale subresource later, as by a HorizontalPodAutoscaler, counts until this changes.
	Replicas *int32 `json:"replicas,omitempty"`
	// Resources is left out for requests of 100m CPU and 64Mi, and a limit of 256Mi.
	Resources    *corev1.ResourceRequirements `json:"resources,omitempty"`
	NodeSelector map[string]string            `json:"nodeSelector,omitempty"`
	Affinity     *corev1.Affinity             `json:"affinity,omitempty"`
	Tolerations  []corev1.Toleration          `json:"tolerations,omitempty"`
	// TopologySpreadConstraints are left out to spread over nodes as far as possible; an
	// empty list: not at all.
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	PriorityClassName         string                            `json:"priorityClassName,omitempty"`
	PodAnnotations            map[string]string                 `json:"podAnnotations,omitempty"`
	// Audit says where the audit lines go: Stdout or None. Left out: Stdout.
	Audit AuditSink `json:"audit,omitempty"`
	// Tracing says where traces of requests go. Left out: nowhere, and there are none.
	Tracing *Tracing `json:"tracing,omitempty"`
	// TrustedProxies are the networks, in CIDR notation, of proxies that end TLS before the token
	// servers: they are believed what they say in X-Forwarded-For. Left out: none is.
	TrustedProxies []string `json:"trustedProxies,omitempty"`
}

// AuditSink is where the lines of the audit go.
type AuditSink string

const (
	// AuditStdout sends them to the standard output of the container; its log is on standard error.
	AuditStdout AuditSink = "Stdout"
	// AuditNone sends them nowhere.
	AuditNone AuditSink = "None"
)

// Tracing says where traces of requests go, and of how many there are any.
type Tracing struct {
	// Endpoint is the URL of an OpenTelemetry collector that takes OTLP over HTTP, such as
	// http://collector.observability.svc:4318. Required.
	Endpoint string `json:"endpoint"`
	// SamplePercentage is of how many requests in a hundred there are traces, 0 to 100, where
	// their caller hasn't decided that. Left out: 1.
	SamplePercentage *int32 `json:"samplePercentage,omitempty"`
}

// TLS says where the serving certificate comes from; at most one member is set.
type TLS struct {
	// Managed has the operator keep a CA and a serving certificate. This is the default.
	Managed *ManagedTLS `json:"managed,omitempty"`
	// SecretName is a Secret of type kubernetes.io/tls in the system namespace, such as cert-manager's.
	SecretName string `json:"secretName,omitempty"`
}

// ManagedTLS has no settings.
type ManagedTLS struct{}

// Testing makes an installation fit for tests, and unfit for use.
type Testing struct {
	// SpeedUp makes what takes hours by the API pass that many times faster, 1 to 3600:
	// the intervals of rotation and what belongs to them. Token lifetimes stay. Left out:
	// 1, time as it is.
	SpeedUp int32 `json:"speedUp,omitempty"`
}

// maxSpeedUp makes a second of an hour.
const maxSpeedUp = 3600

// Bounds of a token's lifetime, as the API has them too.
const (
	minTokenLifetime = 10 * time.Second
	maxTokenLifetime = 24 * time.Hour
)

// Load reads the file at path.
//
// The error is one line; it wraps ErrInvalid, or is the file system's.
func Load(path string) (*Instance, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the instance configuration: %w", err)
	}
	instance, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return instance, nil
}

// Parse reads a configuration and fills in what is left out.
//
// The error wraps ErrInvalid and names the key.
func Parse(data []byte) (*Instance, error) {
	document, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, invalid("not valid YAML: %s", oneLine(err))
	}
	if err := single(data); err != nil {
		return nil, err
	}
	instance := &Instance{}
	strict, err := json.UnmarshalStrict(document, instance)
	if err != nil {
		return nil, invalid("%s: %s", culprit(document), oneLine(err))
	}
	if len(strict) > 0 {
		return nil, invalid("%s", oneLine(strict[0]))
	}
	instance.setDefaults()
	if err := instance.validate(); err != nil {
		return nil, err
	}
	return instance, nil
}

// single refuses what follows the first YAML document, which decoding passes over.
func single(data []byte) error {
	documents := stream.NewDecoder(bytes.NewReader(data))
	for n := 0; ; n++ {
		var content any
		switch err := documents.Decode(&content); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return invalid("not valid YAML: %s", oneLine(err))
		case n > 0 && content != nil:
			return invalid("a second YAML document follows; the file must hold one document")
		}
	}
}

func (i *Instance) setDefaults() {
	if i.ExternalPort == 0 {
		i.ExternalPort = 443
	}
	if i.Security.MaximumTokenLifetime.Duration == 0 {
		i.Security.MaximumTokenLifetime.Duration = maxTokenLifetime
	}
	if i.TokenServer.Replicas == nil {
		replicas := int32(2)
		i.TokenServer.Replicas = &replicas
	}
	if i.TokenServer.Resources == nil {
		i.TokenServer.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		}
	}
	if i.TokenServer.Audit == "" {
		i.TokenServer.Audit = AuditStdout
	}
	if tracing := i.TokenServer.Tracing; tracing != nil && tracing.SamplePercentage == nil {
		one := int32(1)
		tracing.SamplePercentage = &one
	}
	if i.Testing.SpeedUp == 0 {
		i.Testing.SpeedUp = 1
	}
	if i.TLS.SecretName == "" && i.TLS.Managed == nil {
		i.TLS.Managed = &ManagedTLS{}
	}
}

// Host returns the host name of the service's address.
func (i *Instance) Host() string { return "api." + i.InstanceDomain }

// ServiceHost returns the host name of the token service inside the cluster.
func (i *Instance) ServiceHost() string {
	return TokenServiceName + "." + i.SystemNamespace + ".svc"
}

// ClusterURL returns the base of the token service's addresses inside the cluster.
func (i *Instance) ClusterURL() string { return "https://" + i.ServiceHost() }

// Issuer returns the issuer of a realm, which is the base of its addresses.
func (i *Instance) Issuer(realm string) string {
	host := i.Host()
	if i.ExternalPort != 443 {
		host = net.JoinHostPort(host, strconv.Itoa(int(i.ExternalPort)))
	}
	return "https://" + host + "/" + realm
}

// TokenLifetime returns how long tokens of a realm are valid that sets the given lifetime,
// or nil for none.
func (i *Instance) TokenLifetime(set *metav1.Duration) time.Duration {
	if set != nil {
		return set.Duration
	}
	return i.Security.DefaultTokenLifetime.Duration
}

// Scaled returns how long an interval of rotation lasts in this instance: d, but in tests.
// It is the one place where time is shortened, so that all that has to be in proportion stays so.
func (i *Instance) Scaled(d time.Duration) time.Duration {
	return d / time.Duration(max(1, i.Testing.SpeedUp))
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
