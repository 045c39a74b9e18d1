package clientassertion

import (
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

// Why a token of a service account is refused, beside what all assertions are.
var (
	ErrDefaultAccount = errors.New("token is of the service account default, which every pod of its namespace may have")
	ErrNotBound       = errors.New("token is bound to no pod")
	ErrAccount        = errors.New("token is of a service account that is not the client's, or was deleted")
	// ErrNoKeys says that the cluster's keys are not known, so that nothing can be said of a token.
	ErrNoKeys = errors.New("the cluster's keys could not be had yet")
)

// MaxServiceAccountLifetime is how far ahead the token of a service account may expire. That of a pod is
// good for an hour, unless the pod asks for another time.
const MaxServiceAccountLifetime = 24 * time.Hour

const (
	// subjectPrefix begins the "sub" of the tokens of service accounts. No client id holds a colon.
	subjectPrefix = "system:serviceaccount:"
	// defaultAccount is what a pod has that names no service account.
	defaultAccount = "default"
)

// ServiceAccount is a service account of the cluster. The UID tells it from one of its name
// that was deleted.
type ServiceAccount struct {
	Namespace string
	Name      string
	UID       string
}

// private are the claims of Kubernetes (k8s.io/kubernetes/pkg/serviceaccount).
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

// OfServiceAccount reports whether the assertion claims to be about a service account.
func (a *Assertion) OfServiceAccount() bool {
	return strings.HasPrefix(a.Claims.Subject, subjectPrefix)
}

// CheckServiceAccount holds the claims of a service account's token against the cluster's
// issuer and the audience, which must be the only one, and returns whose it is.
//
// The token must be bound to a pod: only the pod's own kubelet has it, and it ends with the
// pod, which is for the API server to see and not for us: here it is good until it expires.
//
// Errors: ErrMalformed, ErrIssuer, ErrSubject, ErrAudience, ErrDefaultAccount, ErrNotBound, and those of the times.
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
