package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/oauth2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

const (
	// execInfo is the environment variable with the ExecCredential that a Kubernetes client sends to its plugins.
	execInfo = "KUBERNETES_EXEC_INFO"
	// execMark is set in the environment of the plugins that this process starts.
	execMark = "REALMKEEPER_EXEC_CREDENTIAL"
)

// renewBefore is how long before a token expires a Kubernetes client gets the next one. Until then, a request has
// the time to arrive, and the clock of the API server can be ahead.
const renewBefore = 30 * time.Second

var (
	errExecVersion   = errors.New("unsupported version of ExecCredential")
	errExecRecursion = errors.New("this command cannot read the Secret with a kubeconfig that gets its own credentials from this command; use --from-directory, or another --context or --kubeconfig")
	errNoExpiration  = errors.New("the response has no positive expires_in, which says when clients must renew the token")
)

// execVersion returns the API version of the response. It must be the one that the client asks for, which the
// kubeconfig sets, and is v1 without a client. In v1beta1, the response has the same members.
func execVersion() (string, error) {
	const v1, v1beta1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
	info := os.Getenv(execInfo)
	if info == "" {
		return v1, nil
	}
	var request metav1.TypeMeta
	if err := json.Unmarshal([]byte(info), &request); err != nil {
		return "", fmt.Errorf("reading %s: %w", execInfo, err)
	}
	if request.APIVersion != v1 && request.APIVersion != v1beta1 {
		return "", fmt.Errorf("%w: %s has the apiVersion %q; set that of exec in the kubeconfig to %s", errExecVersion, execInfo, request.APIVersion, v1)
	}
	return request.APIVersion, nil
}

// execCredential returns the response to a Kubernetes client. The client calls the plugin again after
// expirationTimestamp, which is a time of the clock of this machine, as is token.Expiry. A token with a short lifetime
// is renewed after three quarters of it.
func execCredential(version string, token *oauth2.Token, now time.Time) (*clientauthenticationv1.ExecCredential, error) {
	if !token.Expiry.After(now) { // It is zero without expires_in.
		return nil, errNoExpiration
	}
	renewal := metav1.NewTime(token.Expiry.Add(-min(renewBefore, token.Expiry.Sub(now)/4)))
	return &clientauthenticationv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ExecCredential"},
		Status:   &clientauthenticationv1.ExecCredentialStatus{Token: token.AccessToken, ExpirationTimestamp: &renewal},
	}, nil
}

// preventRecursion returns an error if a process with this command started this one to read the Secret. Each would
// start the next one, endlessly.
func preventRecursion() error {
	if os.Getenv(execMark) != "" {
		return errExecRecursion
	}
	return os.Setenv(execMark, "true")
}
