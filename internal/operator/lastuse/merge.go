package lastuse

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
)

// credentialTypes maps the types of credentials to those of status.credentials.
var credentialTypes = map[usage.Type]v1beta1.CredentialType{
	usage.Secret:    v1beta1.CredentialTypeSecret,
	usage.PublicKey: v1beta1.CredentialTypePublicKey,
	usage.Identity:  v1beta1.CredentialTypeIdentity,
}

// maxAhead is how far a last use can be in the future, because the clock of a token server was ahead.
const maxAhead = 5 * time.Minute

// Keep copies the last uses from one status of an ApiClient to the next, whose credentials it changes. It
// doesn't modify previous. It drops times in the future, which would hide all later uses; only someone with the
// credentials of the operator writes one.
func Keep(previous, next *v1beta1.ApiClientStatus, now time.Time) {
	latest := now.Add(maxAhead)
	next.LastUsedTime = until(latest, previous.LastUsedTime)
	for i := range next.Credentials {
		c := &next.Credentials[i]
		c.LastUsedTime = nil
		if before := previous.Credential(c.Type, c.Name); before != nil {
			c.LastUsedTime = until(latest, before.LastUsedTime)
		}
	}
}

// until returns nil if a time is after the latest one.
func until(latest time.Time, at *metav1.Time) *metav1.Time {
	if timeOf(at).After(latest) {
		return nil
	}
	return at
}

// Merge adds uses to the status of an ApiClient, and changes its credentials.
func Merge(s *v1beta1.ApiClientStatus, uses Uses) {
	for credential, at := range uses {
		s.LastUsedTime = lastUse(s.LastUsedTime, at)
		if c := s.Credential(credentialTypes[credential.Type], credential.ID); c != nil {
			c.LastUsedTime = lastUse(c.LastUsedTime, at)
		}
	}
}

// LastUsed returns the last use of a credential according to the status of its ApiClient, or zero
// if the status shows none. known is false if the ApiClient doesn't have the credential.
func LastUsed(c *v1beta1.ApiClient, credential usage.Credential) (at time.Time, known bool) {
	found := c.Status.Credential(credentialTypes[credential.Type], credential.ID)
	if found == nil {
		// The spec can list a credential that the status doesn't list yet.
		return time.Time{}, c.Spec.Lists(credentialTypes[credential.Type], credential.ID)
	}
	return timeOf(found.LastUsedTime), true
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
