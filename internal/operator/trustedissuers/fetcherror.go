package trustedissuers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// FetchError describes in fixed words why the keys of an issuer can't be fetched. The operator's log
// contains it, and conditions and Events contain what Public returns. It contains nothing that the
// issuer sent except for the HTTP status, and no resolved address.
type FetchError string

// Reasons. They complete the sentence "Failed to get the keys: ...".
const (
	ErrAddress     FetchError = "its address is a loopback, link-local, or metadata service address, which is not allowed"
	ErrUnreachable FetchError = "the operator did not get an HTTP response that it can trust"
	ErrHost        FetchError = "its host name cannot be resolved"
	ErrConnection  FetchError = "the connection failed"
	ErrCertificate FetchError = "its certificate is not trusted"
	ErrTimeout     FetchError = "it did not respond within 10 seconds"
	ErrRedirect    FetchError = "it redirects, and redirects are not followed"
	ErrResponse    FetchError = "it did not send a valid HTTP response"
	ErrTooLarge    FetchError = "its response is larger than 64 KiB"
	ErrMetadata    FetchError = "its metadata has no valid jwks_uri with HTTPS"
	ErrIssuer      FetchError = "its metadata is for another issuer"
	ErrKeySet      FetchError = "its key set is not valid or has too many keys"
	ErrNoKeys      FetchError = "its key set has no supported keys"
	ErrPrivateKey  FetchError = "its key set contains a private or symmetric key and must be considered compromised"
)

// Error returns the text.
func (r FetchError) Error() string { return string(r) }

// Public returns the reason for conditions and Events. It is ErrUnreachable for all failures without a
// valid HTTP response: the user who configures an issuer, and an issuer that chooses its jwks_uri, must
// not learn which hosts and ports exist in networks that only the operator can reach.
func (r FetchError) Public() FetchError {
	switch r {
	case ErrHost, ErrConnection, ErrCertificate, ErrTimeout, ErrResponse:
		return ErrUnreachable
	}
	return r
}

// revokes reports whether the issuer itself no longer vouches for the keys that it published before: it
// publishes none of them, or a private key that anyone can use. After other errors, which anything
// between the operator and the issuer can cause, the keys remain in use.
func (r FetchError) revokes() bool { return r == ErrNoKeys || r == ErrPrivateKey }

// Remedy returns a sentence that says what to do.
func (r FetchError) Remedy() string {
	switch r {
	case ErrAddress:
		return "Use an issuer with another address, or ask your administrator to allow local addresses with trustedIssuers.allowLocalAddresses."
	case ErrUnreachable:
		return "Check that the issuer is correct and available, that the operator can connect to it, and that a public certificate authority or one in keys.caBundle issued its certificate. The operator uses no proxy. If it cannot reach the issuer directly, set keys.jwks, or run a relay in the cluster and set operator.hostAliases of the chart. The log of the operator contains the exact reason. The operator keeps trying."
	case ErrPrivateKey:
		return "Have the issuer replace all keys that it published, and publish only public keys."
	case ErrKeySet, ErrNoKeys:
		return "Publish 1 to 32 public keys with a kid for a supported algorithm."
	case ErrRedirect, ErrMetadata, ErrIssuer:
		return "Correct the issuer so that it equals that in its metadata, or set keys.jwksURI or keys.jwks."
	}
	return "Check that the issuer is correct and that the operator can connect to it, or set keys.jwks. The operator keeps trying."
}

// badStatus returns the FetchError for an HTTP status other than 200.
func badStatus(status int) FetchError {
	return FetchError(fmt.Sprintf("its HTTP status is %d, not 200", status))
}

// fetchErrorOf returns the FetchError for the error of a request. connected means that there was a
// connection.
func fetchErrorOf(err error, connected bool) FetchError {
	if reason, ok := errors.AsType[FetchError](err); ok {
		return reason
	}
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || (ok && timeout.Timeout()) {
		return ErrTimeout
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return ErrCertificate
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return ErrHost
	}
	if connected {
		return ErrResponse
	}
	return ErrConnection
}
