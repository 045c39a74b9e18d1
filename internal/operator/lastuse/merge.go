package lastuse

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

// credentialTypes maps the types of credentials other than secrets to those of status.credentials.
var credentialTypes = map[usage.Type]v1beta1.CredentialType{
	usage.PublicKey:         v1beta1.CredentialTypePublicKey,
	usage.ServiceAccount:    v1beta1.CredentialTypeServiceAccount,
	usage.FederatedIdentity: v1beta1.CredentialTypeFederatedIdentity,
}

// Keep copies the last uses from one status of an ApiClient to the next, for the credentials that the
// client still has. It doesn't modify previous.
func Keep(spec *v1beta1.ApiClientSpec, previous, next *v1beta1.ApiClientStatus) {
	next.LastUsedTime, next.Secrets = previous.LastUsedTime, slices.Clone(next.Secrets)
	for i := range next.Secrets {
		if j := slices.IndexFunc(previous.Secrets, func(s v1beta1.ClientSecretStatus) bool { return s.ID == next.Secrets[i].ID }); j >= 0 {
			next.Secrets[i].LastUsedTime = previous.Secrets[j].LastUsedTime
		}
	}
	next.Credentials = nil
	for _, used := range previous.Credentials {
		if hasCredential(spec, used.Type, used.ID) {
			next.Credentials = append(next.Credentials, used)
		}
	}
}

// Merge adds uses to the status of an ApiClient. It copies the slices of s before it changes them,
// because they can belong to a cached object.
func Merge(spec *v1beta1.ApiClientSpec, s *v1beta1.ApiClientStatus, uses Uses) {
	if len(uses) == 0 {
		return
	}
	s.Secrets, s.Credentials = slices.Clone(s.Secrets), slices.Clone(s.Credentials)
	for credential, at := range uses {
		s.LastUsedTime = lastUse(s.LastUsedTime, at)
		if credential.Type == usage.Secret {
			if i := secretIndex(s, credential.ID); i >= 0 {
				s.Secrets[i].LastUsedTime = lastUse(s.Secrets[i].LastUsedTime, at)
			}
			continue
		}
		kind := credentialTypes[credential.Type]
		if !hasCredential(spec, kind, credential.ID) {
			continue
		}
		i := credentialIndex(s, kind, credential.ID)
		if i < 0 {
			s.Credentials = append(s.Credentials, v1beta1.CredentialStatus{Type: kind, ID: credential.ID})
			i = len(s.Credentials) - 1
		}
		s.Credentials[i].LastUsedTime = *lastUse(&s.Credentials[i].LastUsedTime, at)
	}
	slices.SortFunc(s.Credentials, func(a, b v1beta1.CredentialStatus) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
}

// LastUsed returns the last use of a credential according to the status of its ApiClient, or zero
// if the status shows none. known is false if the ApiClient doesn't have the credential.
func LastUsed(c *v1beta1.ApiClient, credential usage.Credential) (at time.Time, known bool) {
	if credential.Type == usage.Secret {
		i := secretIndex(&c.Status, credential.ID)
		if i < 0 {
			return time.Time{}, false
		}
		return timeOf(c.Status.Secrets[i].LastUsedTime), true
	}
	kind := credentialTypes[credential.Type]
	if !hasCredential(&c.Spec, kind, credential.ID) {
		return time.Time{}, false
	}
	if i := credentialIndex(&c.Status, kind, credential.ID); i >= 0 {
		at = c.Status.Credentials[i].LastUsedTime.Time
	}
	return at, true
}

func secretIndex(s *v1beta1.ApiClientStatus, id string) int {
	return slices.IndexFunc(s.Secrets, func(secret v1beta1.ClientSecretStatus) bool { return secret.ID == id })
}

func credentialIndex(s *v1beta1.ApiClientStatus, kind v1beta1.CredentialType, id string) int {
	return slices.IndexFunc(s.Credentials, func(c v1beta1.CredentialStatus) bool { return c.Type == kind && c.ID == id })
}

// hasCredential reports whether a client has a credential that is not a secret.
func hasCredential(spec *v1beta1.ApiClientSpec, kind v1beta1.CredentialType, id string) bool {
	c := v1beta1.ApiClient{Spec: *spec}
	return slices.ContainsFunc(c.CredentialUses(), func(u v1beta1.CredentialUse) bool { return u.Type == kind && u.ID == id })
}

func timeOf(at *metav1.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.Time
}

// lastUse returns the later of two times. If that is recorded, it returns the same pointer.
func lastUse(recorded *metav1.Time, at time.Time) *metav1.Time {
	if timeOf(recorded).Before(at) {
		return &metav1.Time{Time: at}
	}
	return recorded
}
