package v1beta1

import (
	"slices"
	"time"
)

// Secrets returns the client secrets in status.credentials, oldest first.
func (s *ApiClientStatus) Secrets() []CredentialStatus {
	var secrets []CredentialStatus
	for _, c := range s.Credentials {
		if c.Type == CredentialTypeSecret {
			secrets = append(secrets, c)
		}
	}
	return secrets
}

// Credential returns the credential with the given type and name, or nil. The caller can change it.
func (s *ApiClientStatus) Credential(kind CredentialType, name string) *CredentialStatus {
	i := slices.IndexFunc(s.Credentials, func(c CredentialStatus) bool { return c.Type == kind && c.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Credentials[i]
}

// Lists reports whether the spec lists a credential: a public key or an identity.
func (s *ApiClientSpec) Lists(kind CredentialType, name string) bool {
	switch kind {
	case CredentialTypePublicKey:
		return slices.ContainsFunc(s.PublicKeys, func(k PublicKey) bool { return k.KeyID == name })
	case CredentialTypeIdentity:
		return slices.ContainsFunc(s.Identities, func(i Identity) bool { return i.Name == name })
	case CredentialTypeSecret:
	}
	return false
}

// UnusedSince returns the last use of a credential of c, or its creation if it has never been used.
// Credentials other than secrets count as created with c.
func (c *ApiClient) UnusedSince(credential *CredentialStatus) time.Time {
	since := c.CreationTimestamp.Time
	if credential.CreationTime != nil {
		since = credential.CreationTime.Time
	}
	if used := credential.LastUsedTime; used != nil && used.After(since) {
		since = used.Time
	}
	return since
}
