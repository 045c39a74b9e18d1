// Package config reads the instance configuration, a YAML file that configures one installation of
// Realmkeeper. Decoding is strict: an unknown key is an error.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
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

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
)

const (
	apiVersion = "config.realmkeeper.dev/v1beta1"
	kind       = "InstanceConfiguration"
)

// TokenServiceName is the name of the token server Deployment, its Service and related objects.
const TokenServiceName = "realmkeeper-token-server"

// TokenServerContainer is the name of the token server's container in its Pod.
const TokenServerContainer = "token-server"

// ErrInvalid is returned for an invalid configuration. The error message names the key.
var ErrInvalid = errors.New("instance configuration")

// Instance is the configuration of one installation.
type Instance struct {
	// APIVersion must be config.realmkeeper.dev/v1beta1. Required.
	APIVersion string `json:"apiVersion"`
	// Kind must be InstanceConfiguration. Required.
	Kind string `json:"kind"`

	// InstanceDomain is the domain of the installation. The host of the token service is "api."
	// followed by this domain. Changing it changes every issuer, so verifiers reject existing tokens.
	// Required.
	InstanceDomain string `json:"instanceDomain"`
	// ExternalPort is the port in the URLs of the token service, 1 to 65535. Defaults to 443, which
	// the URLs omit.
	ExternalPort int32 `json:"externalPort,omitempty"`
	// ClusterDomain is the domain of the cluster's Services. Changing it replaces a managed CA. Defaults to
	// cluster.local. The operator doesn't detect it: the CA may only sign for these names, so they must not
	// depend on a file of the node that it runs on.
	ClusterDomain string `json:"clusterDomain,omitempty"`

	// WatchNamespaces are the namespaces whose ApiClients are served. Defaults to all namespaces.
	WatchNamespaces []string `json:"watchNamespaces,omitempty"`
	// CredentialsSecrets configures the use of Secrets in the namespaces of ApiClients.
	CredentialsSecrets CredentialsSecrets `json:"credentialsSecrets,omitzero"`
	// CommonLabels are additional labels of the objects of the token service and their Pods. The
	// operator's own labels take precedence.
	CommonLabels map[string]string `json:"commonLabels,omitempty"`

	Security    Security    `json:"security"`
	TokenServer TokenServer `json:"tokenServer,omitzero"`
	TLS         TLS         `json:"tls,omitzero"`
	// KeyEncryption configures the encryption of private keys in records.
	KeyEncryption KeyEncryption `json:"keyEncryption,omitzero"`
	// TrustedIssuers configures how the operator fetches the keys of trusted issuers.
	TrustedIssuers TrustedIssuers `json:"trustedIssuers,omitzero"`
	// Usage configures how the last use of credentials is recorded.
	Usage Usage `json:"usage,omitzero"`
	// Logging configures the logs of the operator and the token servers.
	Logging Logging `json:"logging,omitzero"`
	// Testing must be unset outside of tests.
	Testing Testing `json:"testing,omitzero"`

	// SystemNamespace is the namespace of the operator, the token servers and their certificates.
	// It comes from a command-line flag, not from the file.
	SystemNamespace string `json:"-"`
	// RecordsNamespace is the namespace of the records and the heartbeat Leases. Nothing runs in it.
	// It comes from a command-line flag and differs from SystemNamespace.
	RecordsNamespace string `json:"-"`
	// LocalURL is the base URL of a token server without a cluster. It replaces the URLs inside and
	// outside of the cluster. Only the local issuer sets it.
	LocalURL string `json:"-"`
}

// CredentialsSecrets configures the use of Secrets in the namespaces of ApiClients.
type CredentialsSecrets struct {
	// Enabled allows ApiClients with generated and provided secrets, for which the operator needs
	// permissions for Secrets. Defaults to true.
	Enabled *bool `json:"enabled,omitempty"`
}

// Security holds limits for all realms.
type Security struct {
	// DefaultTokenLifetime is the token lifetime of realms that do not set one: whole seconds, 10s
	// to 24h. Required.
	DefaultTokenLifetime metav1.Duration `json:"defaultTokenLifetime"`
	// MaximumTokenLifetime is the longest token lifetime that a realm may set: whole seconds, from
	// the default token lifetime to 24h. Clients of a realm that exceeds it get no tokens. Defaults to
	// 24h.
	MaximumTokenLifetime metav1.Duration `json:"maximumTokenLifetime,omitzero"`
}

// TokenServer configures the token servers.
type TokenServer struct {
	// Image defaults to the operator's own image so that both have the same version.
	Image string `json:"image,omitempty"`
	// ImagePullPolicy is Always, IfNotPresent, or Never. If unset, Kubernetes chooses.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets are Secrets in the system namespace with registry credentials.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Replicas is the number of token servers, at least 1. With more than one, there is a
	// PodDisruptionBudget that allows one unavailable Pod. A number that is set later through the scale
	// subresource, for example by a HorizontalPodAutoscaler, takes precedence until this value changes.
	// Defaults to 2.
	Replicas *int32 `json:"replicas,omitempty"`
	// Resources defaults to requests of 100m CPU and 64Mi memory, and a memory limit of 256Mi.
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// NodeSelector includes kubernetes.io/os: linux, unless it has another value for this label.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Affinity is that of the Pods. Defaults to none.
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Tolerations are those of the Pods. Defaults to none.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// TopologySpreadConstraints defaults to spreading across nodes if possible. An empty list
	// disables spreading.
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// PriorityClassName is that of the Pods. Defaults to none.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// PodAnnotations are additional annotations of the Pods.
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`
	// PodLabels are additional labels of the Pods. The operator's own labels take precedence.
	PodLabels map[string]string `json:"podLabels,omitempty"`
	// PodSecurityContext is that of the Pods, within the restricted Pod Security Standard. Fields that are
	// unset default to what it requires.
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// SecurityContext is that of the containers, within the same standard.
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
	// ExtraEnv are additional environment variables. They must not set what the operator sets.
	ExtraEnv []corev1.EnvVar `json:"extraEnv,omitempty"`
	// ExtraArgs are additional flags. They must not set what the operator sets, or what has a key, except
	// for --drain-delay.
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// Audit is the destination of audit events: Stdout or None. Defaults to Stdout.
	Audit AuditSink `json:"audit,omitempty"`
	// Tracing configures request traces. If unset, tracing is disabled.
	Tracing *Tracing `json:"tracing,omitempty"`
	// TrustedProxies are the CIDRs of TLS-terminating proxies whose X-Forwarded-For header is
	// trusted. Defaults to none.
	TrustedProxies []string `json:"trustedProxies,omitempty"`
	// ProxyProtocolFrom are the CIDRs of load balancers that start each connection with a PROXY
	// protocol header. Connections from them without the header are closed. Defaults to none.
	ProxyProtocolFrom []string `json:"proxyProtocolFrom,omitempty"`
	// PassthroughProxies are the CIDRs of load balancers that pass TLS through and hide the source,
	// so that the limits per source do not apply to their connections. They must not overlap
	// ProxyProtocolFrom. Defaults to none.
	PassthroughProxies []string `json:"passthroughProxies,omitempty"`
	// MaxStaleness is how long a token server stays ready without contact with the API server: 30s or
	// more. Defaults to 0s, with which it always stays ready.
	MaxStaleness metav1.Duration `json:"maxStaleness,omitzero"`
	// AcceptedServiceAccountIssuers are the cluster's other issuers of service account tokens, such as the former
	// one. The API server accepts several, but publishes only the first one. Defaults to none.
	AcceptedServiceAccountIssuers []ServiceAccountIssuer `json:"acceptedServiceAccountIssuers,omitempty"`
	// IdleTimeout is how long connections without requests stay open: 5s to 1h. It must be longer than
	// in proxies in front of the token servers. If it is 0, token servers use their default, 75s.
	IdleTimeout metav1.Duration `json:"idleTimeout,omitzero"`
}

// ServiceAccountIssuer is an issuer whose tokens are accepted for a time if a key of the cluster signed them.
type ServiceAccountIssuer struct {
	// Issuer is the "iss" of the tokens.
	Issuer string `json:"issuer"`
	// Until is when the tokens are no longer accepted.
	Until metav1.Time `json:"until"`
}

// AuditSink is a destination of audit events.
type AuditSink string

const (
	// AuditStdout writes them to the container's standard output. The log goes to standard error.
	AuditStdout AuditSink = "Stdout"
	// AuditNone disables auditing.
	AuditNone AuditSink = "None"
)

// Tracing configures request traces.
type Tracing struct {
	// Endpoint is the URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as
	// http://collector.observability.svc:4318. Required.
	Endpoint string `json:"endpoint"`
	// SamplePercentage is the percentage of requests to trace, 0 to 100. A sampling decision of the
	// caller takes precedence. Defaults to 1.
	SamplePercentage *int32 `json:"samplePercentage,omitempty"`
}

// TrustedIssuers configures how the operator fetches the keys of trusted issuers.
type TrustedIssuers struct {
	// AllowLocalAddresses allows issuers at loopback and link-local addresses, which include the
	// metadata services of clouds. Defaults to false.
	AllowLocalAddresses bool `json:"allowLocalAddresses,omitempty"`
}

// Usage configures how the last use of credentials is recorded.
type Usage struct {
	// Resolution is the precision of the recorded times: whole hours, 1h to 24h. For a client in constant
	// use, the operator updates the status as often. Defaults to 1h.
	Resolution metav1.Duration `json:"resolution,omitzero"`
	// StaleAfter is how long a credential must have been unused to be counted as stale: at least the
	// resolution. Stale credentials are only reported. Defaults to 2160h, which is 90 days.
	StaleAfter metav1.Duration `json:"staleAfter,omitzero"`
}

// Logging configures the logs of the operator and the token servers.
type Logging struct {
	// Level is the least severe level that is logged: info or debug. Secrets and tokens are not logged at either level. Defaults to info.
	Level LogLevel `json:"level,omitempty"`
}

// LogLevel is the least severe level that is logged.
type LogLevel string

const (
	// LogInfo logs what administrators need to know in normal operation.
	LogInfo LogLevel = "info"
	// LogDebug also logs details such as why a token server rejected an assertion.
	LogDebug LogLevel = "debug"
)

// Testing holds settings for tests. They make an installation unsuitable for production.
type Testing struct {
	// SpeedUp divides rotation intervals and related durations by this factor, 1 to 3600. It does
	// not change token lifetimes. Defaults to 1.
	SpeedUp int32 `json:"speedUp,omitempty"`
}

// maxSpeedUp shortens an hour to a second.
const maxSpeedUp = 3600

// Limits for token lifetimes. They match the limits in the API.
const (
	minTokenLifetime = 10 * time.Second
	maxTokenLifetime = 24 * time.Hour
)

// defaultStaleAfter is 90 days.
const defaultStaleAfter = 90 * 24 * time.Hour

// Defaults and limits of the managed CA.
const (
	defaultCALifetime = maxCALifetime
	minCALifetime     = 24 * time.Hour
	maxCALifetime     = 10 * 365 * 24 * time.Hour
	minCAOverlap      = time.Hour
	// defaultCAOverlaps and minCAOverlaps divide the lifetime of a CA. The latter leaves time before
	// the overlap, and for the last serving certificate of a CA after it.
	defaultCAOverlaps = 10
	minCAOverlaps     = 8
)

// Load reads the file at path. The error is a single line. It wraps ErrInvalid or comes from the
// file system.
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

// Parse decodes a configuration and sets the defaults. The error wraps ErrInvalid and names the
// key.
func Parse(data []byte) (*Instance, error) {
	document, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, invalid("not valid YAML: %s", oneLine(err))
	}
	if err := rejectMoreDocuments(data); err != nil {
		return nil, err
	}
	instance := &Instance{}
	strict, err := json.UnmarshalStrict(document, instance)
	if err != nil {
		return nil, invalid("%s: %s", failingKey(document), oneLine(err))
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

// rejectMoreDocuments returns an error if data contains more than one YAML document. The decoder
// would ignore all but the first.
func rejectMoreDocuments(data []byte) error {
	documents := stream.NewDecoder(bytes.NewReader(data))
	for n := 0; ; n++ {
		var content any
		switch err := documents.Decode(&content); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return invalid("not valid YAML: %s", oneLine(err))
		case n > 0 && content != nil:
			return invalid("found a second YAML document; the file must hold only one document")
		}
	}
}

func (i *Instance) setDefaults() {
	if i.ExternalPort == 0 {
		i.ExternalPort = 443
	}
	i.ClusterDomain = cmp.Or(i.ClusterDomain, "cluster.local")
	if i.CredentialsSecrets.Enabled == nil {
		enabled := true
		i.CredentialsSecrets.Enabled = &enabled
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
	// The image is for Linux. Without this, Pods could be scheduled to Windows nodes that have no taint.
	selector := map[string]string{corev1.LabelOSStable: string(corev1.Linux)}
	maps.Copy(selector, i.TokenServer.NodeSelector)
	i.TokenServer.NodeSelector = selector
	i.TokenServer.setSecurityDefaults()
	setFieldVersions(i.TokenServer.ExtraEnv)
	if i.TokenServer.Audit == "" {
		i.TokenServer.Audit = AuditStdout
	}
	if tracing := i.TokenServer.Tracing; tracing != nil && tracing.SamplePercentage == nil {
		one := int32(1)
		tracing.SamplePercentage = &one
	}
	if i.Usage.Resolution.Duration == 0 {
		i.Usage.Resolution.Duration = usage.DefaultResolution
	}
	if i.Usage.StaleAfter.Duration == 0 {
		i.Usage.StaleAfter.Duration = defaultStaleAfter
	}
	i.Logging.Level = cmp.Or(i.Logging.Level, LogInfo)
	if i.Testing.SpeedUp == 0 {
		i.Testing.SpeedUp = 1
	}
	i.KeyEncryption.setDefaults()
	if i.TLS.SecretName == "" && i.TLS.Managed == nil {
		i.TLS.Managed = &ManagedTLS{}
	}
	if managed := i.TLS.Managed; managed != nil {
		managed.setDefaults()
	}
}

// ManagesCredentialsSecrets reports whether ApiClients can have generated and provided secrets.
func (i *Instance) ManagesCredentialsSecrets() bool {
	return i.CredentialsSecrets.Enabled == nil || *i.CredentialsSecrets.Enabled
}

// Host returns the external host name of the token service.
func (i *Instance) Host() string { return "api." + i.InstanceDomain }

// ServiceHost returns the host name of the token service inside the cluster.
func (i *Instance) ServiceHost() string {
	return TokenServiceName + "." + i.SystemNamespace + ".svc"
}

// ClusterURL returns the base URL of the token service inside the cluster.
func (i *Instance) ClusterURL() string {
	if i.LocalURL != "" {
		return i.LocalURL
	}
	return "https://" + i.ServiceHost()
}

// ServiceURL returns the external base URL of the token service.
func (i *Instance) ServiceURL() string {
	if i.LocalURL != "" {
		return i.LocalURL
	}
	host := i.Host()
	if i.ExternalPort != 443 {
		host = net.JoinHostPort(host, strconv.Itoa(int(i.ExternalPort)))
	}
	return "https://" + host
}

// Issuer returns the issuer of a realm, which is also the base of its URLs.
func (i *Instance) Issuer(realm string) string { return i.ServiceURL() + "/" + realm }

// TokenLifetime returns a realm's token lifetime. The argument is the lifetime from its spec, or
// nil if unset.
func (i *Instance) TokenLifetime(set *metav1.Duration) time.Duration {
	if set != nil {
		return set.Duration
	}
	return i.Security.DefaultTokenLifetime.Duration
}

// Scaled returns the rotation interval d divided by testing.speedUp. Use it for every rotation
// interval so that the ratios between them are preserved.
func (i *Instance) Scaled(d time.Duration) time.Duration {
	return d / time.Duration(max(1, i.Testing.SpeedUp))
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
