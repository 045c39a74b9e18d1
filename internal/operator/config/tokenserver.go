package config

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

// validate rejects values that the API server would reject in the token server Deployment. Users
// see the error when the operator starts instead of only in its log.
func (s *TokenServer) validate() error {
	if *s.Replicas < 1 {
		return invalid("tokenServer.replicas must be at least 1, not %d", *s.Replicas)
	}
	switch s.ImagePullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return invalid("tokenServer.imagePullPolicy must be Always, IfNotPresent or Never, not %q", s.ImagePullPolicy)
	}
	if err := validateResources("tokenServer", *s.Resources); err != nil {
		return err
	}
	if s.PriorityClassName != "" {
		if problems := validation.IsDNS1123Subdomain(s.PriorityClassName); len(problems) > 0 {
			return invalid("tokenServer.priorityClassName %q: %s", s.PriorityClassName, problems[0])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.PodAnnotations)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return invalid("tokenServer.podAnnotations key %q: %s", key, problems[0])
		}
	}
	for n, secret := range s.ImagePullSecrets {
		if problems := validation.IsDNS1123Subdomain(secret.Name); len(problems) > 0 {
			return invalid("tokenServer.imagePullSecrets[%d].name %q is not a valid Secret name: %s", n, secret.Name, problems[0])
		}
	}
	return cmp.Or(validateLabels("tokenServer.podLabels", s.PodLabels), validateLabels("tokenServer.nodeSelector", s.NodeSelector),
		s.validateSecurity(), s.validateExtra(), s.validateRequests(), s.validateScheduling())
}

func validateLabels(field string, labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])...)
		if len(problems) > 0 {
			return invalid("%s %q: %q: %s", field, key, labels[key], problems[0])
		}
	}
	return nil
}

func validateResources(key string, resources corev1.ResourceRequirements) error {
	for name, request := range resources.Requests {
		if limit, ok := resources.Limits[name]; ok && request.Cmp(limit) > 0 {
			return invalid("%s.resources.requests.%s %s exceeds its limit %s", key, name, request.String(), limit.String())
		}
	}
	return nil
}

// validateRequests checks the settings for auditing, proxies, staleness and tracing.
func (s *TokenServer) validateRequests() error {
	switch s.Audit {
	case AuditStdout, AuditNone:
	default:
		return invalid("tokenServer.audit must be Stdout or None, not %q", s.Audit)
	}
	if err := s.validateProxies(); err != nil {
		return err
	}
	if err := heartbeat.ValidateMaxStaleness(s.MaxStaleness.Duration); err != nil {
		return invalid("tokenServer.maxStaleness %w", err)
	}
	for _, accepted := range s.AcceptedServiceAccountIssuers {
		if accepted.Issuer == "" || accepted.Until.IsZero() {
			return invalid("tokenServer.acceptedServiceAccountIssuers must have an issuer and a time in until for each entry")
		}
	}
	if idle := s.IdleTimeout.Duration; idle != 0 && (idle < 5*time.Second || idle > time.Hour) {
		return invalid("tokenServer.idleTimeout must be between 5s and 1h, not %s", idle)
	}
	return s.Tracing.validate()
}

// validateProxies checks the networks of proxies. A proxy can both send the PROXY protocol and
// terminate TLS, but a proxy that sends the PROXY protocol does not hide the source.
func (s *TokenServer) validateProxies() error {
	if _, err := parseNetworks("trustedProxies", s.TrustedProxies); err != nil {
		return err
	}
	sending, err := parseNetworks("proxyProtocolFrom", s.ProxyProtocolFrom)
	if err != nil {
		return err
	}
	hiding, err := parseNetworks("passthroughProxies", s.PassthroughProxies)
	if err != nil {
		return err
	}
	for n, network := range hiding {
		if m := slices.IndexFunc(sending, network.Overlaps); m >= 0 {
			return invalid("tokenServer.passthroughProxies[%d] %q overlaps tokenServer.proxyProtocolFrom[%d] %q; a proxy that sends the PROXY protocol does not hide the source, so remove it from passthroughProxies",
				n, s.PassthroughProxies[n], m, s.ProxyProtocolFrom[m])
		}
	}
	return nil
}

func parseNetworks(key string, networks []string) ([]netip.Prefix, error) {
	parsed := make([]netip.Prefix, 0, len(networks))
	for n, network := range networks {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, invalid("tokenServer.%s[%d] %q is not a CIDR such as 10.0.0.0/8", key, n, network)
		}
		parsed = append(parsed, prefix)
	}
	return parsed, nil
}

func (t *Tracing) validate() error {
	if t == nil {
		return nil
	}
	endpoint, err := url.Parse(t.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return invalid("tokenServer.tracing.endpoint %q must be an HTTP or HTTPS URL such as http://collector.observability.svc:4318", t.Endpoint)
	}
	if p := *t.SamplePercentage; p < 0 || p > 100 {
		return invalid("tokenServer.tracing.samplePercentage must be between 0 and 100, not %d", p)
	}
	return nil
}

func (s *TokenServer) validateScheduling() error {
	for i, t := range s.Tolerations {
		switch t.Operator {
		case "", corev1.TolerationOpEqual, corev1.TolerationOpExists:
		default:
			return invalid("tokenServer.tolerations[%d].operator must be Equal or Exists, not %q", i, t.Operator)
		}
		switch t.Effect {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return invalid("tokenServer.tolerations[%d].effect must be NoSchedule, PreferNoSchedule or NoExecute, not %q", i, t.Effect)
		}
	}
	for i, c := range s.TopologySpreadConstraints {
		switch {
		case c.MaxSkew < 1:
			return invalid("tokenServer.topologySpreadConstraints[%d].maxSkew must be at least 1, not %d", i, c.MaxSkew)
		case c.TopologyKey == "":
			return invalid("tokenServer.topologySpreadConstraints[%d].topologyKey is required", i)
		case c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway:
			return invalid("tokenServer.topologySpreadConstraints[%d].whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway, not %q", i, c.WhenUnsatisfiable)
		}
	}
	return nil
}
