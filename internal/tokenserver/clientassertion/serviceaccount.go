package clientassertion

import (
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

// The additional reasons for which a service account token is rejected.
var (
	ErrDefaultAccount = errors.New("token is of the service account default, which every pod of its namespace can use")
	ErrNotBound       = errors.New("token is not bound to a pod")
	ErrAccount        = errors.New("token is of a service account that was deleted or is not the client's")
	// ErrNoKeys means that the token can't be verified, because the cluster's keys are not known
	// yet.
	ErrNoKeys = errors.New("the cluster's keys have not been loaded yet")
)

// MaxServiceAccountLifetime is how far in the future a service account token may expire. A Pod's
// token lasts one hour by default.
const MaxServiceAccountLifetime = 24 * time.Hour

const (
	// subjectPrefix is the prefix of "sub" in service account tokens. Client IDs never contain a
	// colon.
	subjectPrefix = "system:serviceaccount:"
	// defaultAccount is the service account of Pods that don't specify one.
	defaultAccount = "default"
)

// ServiceAccount is a service account of the cluster. The UID distinguishes it from a deleted
// account of the same name.
type ServiceAccount struct {
	Namespace string
	Name      string
	UID       string
}

// private has the private claims of Kubernetes (k8s.io/kubernetes/pkg/serviceaccount).
type private struct {
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount object `json:"serviceaccount"`
		Pod            object `json:"pod"`
	} `json:"kubernetes.io"`
}

type object struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// OfServiceAccount reports whether the subject of the assertion has the form of a service account.
func (a *Assertion) OfServiceAccount() bool {
	return strings.HasPrefix(a.Claims.Subject, subjectPrefix)
}

// CheckServiceAccount checks the claims of a service account token against the cluster's issuer and
// the audience, which must be the only one. It returns the service account.
//
// The token must be bound to a Pod, so that only the kubelet of that Pod can request it. Unlike the
// API server, this check accepts the token until it expires, even after the Pod is deleted.
//
// Errors: ErrMalformed, ErrIssuer, ErrSubject, ErrAudience, ErrDefaultAccount, ErrNotBound,
// ErrNoExpiry, ErrExpired, ErrTooLong and ErrNotYetValid.
func (a *Assertion) CheckServiceAccount(issuer, audience string, now time.Time) (ServiceAccount, error) {
	var claims private
	if json.Unmarshal(a.payload, &claims) != nil {
		return ServiceAccount{}, ErrMalformed
	}
	k := &claims.Kubernetes
	switch {
	case issuer == "" || a.Claims.Issuer != issuer:
		return ServiceAccount{}, ErrIssuer
	case k.Namespace == "" || k.ServiceAccount.Name == "" || k.ServiceAccount.UID == "" ||
		a.Claims.Subject != subjectPrefix+k.Namespace+":"+k.ServiceAccount.Name:
		return ServiceAccount{}, ErrSubject
	case k.ServiceAccount.Name == defaultAccount:
		return ServiceAccount{}, ErrDefaultAccount
	case k.Pod.Name == "" || k.Pod.UID == "":
		return ServiceAccount{}, ErrNotBound
	}
	if err := a.checkAudience(audience); err != nil {
		return ServiceAccount{}, err
	}
	if err := a.checkTimes(now, MaxServiceAccountLifetime); err != nil {
		return ServiceAccount{}, err
	}
	return ServiceAccount{Namespace: k.Namespace, Name: k.ServiceAccount.Name, UID: k.ServiceAccount.UID}, nil
}
