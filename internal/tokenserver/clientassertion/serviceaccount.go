package clientassertion

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

// These are additional reasons for rejecting a service account token.
var (
	ErrDefaultAccount = errors.New("token belongs to the default service account, which every pod in its namespace can use")
	ErrNotBound       = errors.New("token is not bound to a pod")
	ErrAccount        = errors.New("token belongs to a service account that was deleted or is not assigned to the client")
	// ErrNoKeys means that the token can't be verified, because the cluster's keys are not yet
	// known, or because the API server can't be asked about an unknown one.
	ErrNoKeys = errors.New("the cluster's keys are not loaded yet")
)

// MaxServiceAccountLifetime is the maximum time until a service account token expires. A Pod's
// token is valid for one hour by default.
const MaxServiceAccountLifetime = 24 * time.Hour

// IssuerKubernetes stands for the cluster as the issuer of service account tokens. The cluster's
// issuer URL doesn't identify it, because many clusters have the same one.
const IssuerKubernetes = "kubernetes"

const (
	// subjectPrefix is the prefix of "sub" in service account tokens. Client IDs never contain a
	// colon.
	subjectPrefix = "system:serviceaccount:"
	// defaultAccount is the service account used by Pods that don't specify one.
	defaultAccount = "default"
)

// ServiceAccount is a service account in the cluster. The UID distinguishes it from a deleted
// service account with the same name.
type ServiceAccount struct {
	Namespace string
	Name      string
	UID       string
}

// Subject returns the "sub" of the service account's tokens.
func (a ServiceAccount) Subject() string { return subjectPrefix + a.Namespace + ":" + a.Name }

// private contains the private claims defined by Kubernetes (k8s.io/kubernetes/pkg/serviceaccount).
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

// OfServiceAccount reports whether the assertion's subject has the form of a service account.
func (a *Assertion) OfServiceAccount() bool {
	return strings.HasPrefix(a.Claims.Subject, subjectPrefix)
}

// CheckServiceAccount checks the claims of a service account token and returns the service account.
// The token must have one of the cluster's issuers and only the given audience.
//
// The token must be bound to a Pod, so that only that Pod's kubelet can request it. Unlike the API
// server, this check accepts the token until it expires, even after the Pod is deleted.
//
// Errors: jws.ErrMalformed, ErrIssuer, ErrSubject, ErrAudience, ErrDefaultAccount, ErrNotBound,
// ErrNoExpiry, ErrExpired, ErrTooLong and ErrNotYetValid.
func (a *Assertion) CheckServiceAccount(issuers []string, audience string, now time.Time) (ServiceAccount, error) {
	var claims private
	if json.Unmarshal(a.Payload, &claims) != nil {
		return ServiceAccount{}, jws.ErrMalformed
	}
	k := &claims.Kubernetes
	switch {
	case a.Claims.Issuer == "" || !slices.Contains(issuers, a.Claims.Issuer):
		return ServiceAccount{}, ErrIssuer
	case k.Namespace == "" || k.ServiceAccount.Name == "" || k.ServiceAccount.UID == "" ||
		a.Claims.Subject != ServiceAccount{Namespace: k.Namespace, Name: k.ServiceAccount.Name}.Subject():
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
