package config

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
)

// validate checks what decoding can't: values and conflicting keys.
func (i *Instance) validate() error {
	if i.APIVersion != apiVersion {
		return invalid("apiVersion must be %q, not %q", apiVersion, i.APIVersion)
	}
	if i.Kind != kind {
		return invalid("kind must be %q, not %q", kind, i.Kind)
	}
	if i.ExternalPort < 1 || i.ExternalPort > 65535 {
		return invalid("externalPort must be between 1 and 65535, not %d", i.ExternalPort)
	}
	return cmp.Or(i.validateDomains(), i.validateNamespaces(), i.Security.validate(), validateLabels("commonLabels", i.CommonLabels),
		i.TokenServer.validate(), i.KeyEncryption.validate(), i.Usage.validate(), i.Logging.validate(), i.Testing.validate(), i.TLS.validate())
}

func (i *Instance) validateDomains() error {
	if i.InstanceDomain == "" {
		return invalid("instanceDomain is required, such as example.com")
	}
	if problems := validation.IsDNS1123Subdomain(i.Host()); len(problems) > 0 {
		return invalid("instanceDomain %q is not a valid domain name: %s", i.InstanceDomain, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(i.ClusterDomain); len(problems) > 0 {
		return invalid("clusterDomain must be a DNS name in lower case, not %q", i.ClusterDomain)
	}
	return nil
}

func (i *Instance) validateNamespaces() error {
	seen := map[string]bool{}
	for _, name := range i.WatchNamespaces {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return invalid("watchNamespaces: %q is not a valid namespace name: %s", name, problems[0])
		}
		if seen[name] {
			return invalid("watchNamespaces contains %q twice; remove one", name)
		}
		seen[name] = true
	}
	return nil
}

func (u *Usage) validate() error {
	if r := u.Resolution.Duration; r < usage.MinResolution || r > usage.MaxResolution || r%time.Hour != 0 {
		return invalid("usage.resolution must be between 1h and 24h in whole hours, not %s", r)
	}
	if u.StaleAfter.Duration < u.Resolution.Duration {
		return invalid("usage.staleAfter must be at least usage.resolution, which is %s, not %s", u.Resolution.Duration, u.StaleAfter.Duration)
	}
	return nil
}

func (l *Logging) validate() error {
	switch l.Level {
	case LogInfo, LogDebug:
		return nil
	default:
		return invalid("logging.level must be info or debug, not %q", l.Level)
	}
}

func (t *Testing) validate() error {
	if t.SpeedUp < 1 || t.SpeedUp > maxSpeedUp {
		return invalid("testing.speedUp must be between 1 and %d, not %d", maxSpeedUp, t.SpeedUp)
	}
	return nil
}

func (t *TLS) validate() error {
	if t.Managed != nil && t.SecretName != "" {
		return invalid("tls.managed and tls.secretName are mutually exclusive; set only one of them")
	}
	if t.Managed != nil {
		return t.Managed.validate()
	}
	if t.SecretName != "" {
		if problems := validation.IsDNS1123Subdomain(t.SecretName); len(problems) > 0 {
			return invalid("tls.secretName %q is not a valid Secret name: %s", t.SecretName, problems[0])
		}
	}
	return nil
}

func (m *ManagedTLS) validate() error {
	lifetime, overlap := m.Lifetime.Duration, m.Overlap.Duration
	if lifetime < minCALifetime || lifetime > maxCALifetime || lifetime%time.Second != 0 {
		return invalid("tls.managed.lifetime must be whole seconds between %s and %s, not %s", minCALifetime, maxCALifetime, lifetime)
	}
	if overlap < minCAOverlap || overlap%time.Second != 0 {
		return invalid("tls.managed.overlap must be whole seconds and at least %s, not %s", minCAOverlap, overlap)
	}
	if longest := lifetime / minCAOverlaps; overlap > longest {
		return invalid("tls.managed.overlap must be at most %s, an eighth of tls.managed.lifetime %s, so that a CA can be renewed before it expires; it is %s", longest, lifetime, overlap)
	}
	return nil
}

func (s *Security) validate() error {
	if s.DefaultTokenLifetime.Duration == 0 {
		return invalid("security.defaultTokenLifetime is required; set it, for example, to 5m")
	}
	if err := cmp.Or(
		lifetime("security.defaultTokenLifetime", s.DefaultTokenLifetime.Duration),
		lifetime("security.maximumTokenLifetime", s.MaximumTokenLifetime.Duration),
	); err != nil {
		return err
	}
	if s.DefaultTokenLifetime.Duration > s.MaximumTokenLifetime.Duration {
		return invalid("security.defaultTokenLifetime %s exceeds security.maximumTokenLifetime %s",
			s.DefaultTokenLifetime.Duration, s.MaximumTokenLifetime.Duration)
	}
	return nil
}

func lifetime(key string, d time.Duration) error {
	if d < minTokenLifetime || d > maxTokenLifetime || d%time.Second != 0 {
		return invalid("%s must be whole seconds between %s and %s, not %s", key, minTokenLifetime, maxTokenLifetime, d)
	}
	return nil
}
