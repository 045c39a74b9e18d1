// Package permissions_test attacks a cluster with the operator's and a token server's own service
// account credentials, under the RBAC rules and admission policies that are shipped to users.
package permissions_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithControllerManager(), env.WithClusterTrustBundles())
}

const (
	operatorAccount = "realmkeeper-operator"
	initialAdmin    = "initial-admin"
)

// The refusals that tests expect, as parts of the API server's message.
const (
	noPermission = " is forbidden: User "
	// deniedByPolicy precedes the message of a policy.
	deniedByPolicy = "' denied request: "
)

// attempt is a request that must be denied.
type attempt struct {
	do func(context.Context, client.Client) error
	// want is part of the expected message.
	want string
}

// deny runs all attempts as subtests and fails the test for each that isn't denied as expected.
func deny(t *testing.T, as client.Client, attempts map[string]attempt) {
	t.Helper()
	for name, a := range attempts {
		t.Run(name, func(t *testing.T) { wantDenied(t, a.do(t.Context(), as), a.want) })
	}
}

func wantDenied(t *testing.T, err error, message string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want a request that is denied", err)
	}
	if !strings.Contains(err.Error(), message) {
		t.Errorf("got the message\n%s\nwant it to contain\n%s", err, message)
	}
}

var errAllowed = errors.New("the request is allowed")

// awaitDenied waits until the API server enforces a policy, which it does shortly after the policy
// is applied. do must be a dry run.
func awaitDenied(t *testing.T, policy string, do func() error) {
	t.Helper()
	install.Eventually(t, policy, func() error {
		switch err := do(); {
		case err == nil:
			return errAllowed
		case !strings.Contains(err.Error(), deniedByPolicy):
			return err
		}
		return nil
	})
}

// as returns a client with a token of a service account in the system namespace. If pod is not
// empty, the token is bound to the Pod, as the tokens that the kubelet mounts are.
func as(t *testing.T, inst *install.Installation, name, pod string) client.Client {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: inst.Namespace, Name: name}}
	install.Eventually(t, "service account "+name, func() error {
		return inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(account), account)
	})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(time.Hour.Seconds()))}}
	if pod != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod}
	}
	if err := inst.Env.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatalf("Failed to request a token for %s: %v", name, err)
	}
	cfg := rest.AnonymousClientConfig(inst.Env.Config)
	cfg.BearerToken = request.Status.Token
	c, err := client.New(cfg, client.Options{Scheme: inst.Env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// operator starts an operator, waits until it has written the token service, and returns the
// installation and a client with the operator's credentials. The operator's policies are enforced.
func operator(t *testing.T, settings install.Settings) (*install.Installation, client.Client) {
	t.Helper()
	inst := install.New(t, env.Start(t), settings)
	inst.StartOperator(t, "")
	c := as(t, inst, operatorAccount, "")
	dry := client.NewDryRunClient(c)
	awaitDenied(t, "policy for the operator's Secrets", func() error { return dry.Create(t.Context(), secret(inst.Namespace, "probe", nil)) })
	awaitDenied(t, "policy for the token service", func() error { return dry.Create(t.Context(), deployment(inst.Namespace, "probe", nil)) })
	servers := &appsv1.Deployment{ObjectMeta: key(inst.Namespace, config.TokenServiceName)}
	install.Eventually(t, "the Deployment of the token servers", func() error {
		return inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(servers), servers)
	})
	return inst, c
}

// site is an installation and clients with the credentials of its programs.
type site struct {
	inst *install.Installation
	// operator has the operator's credentials, and server those of the token server in the Pod own.
	operator, server client.Client
	own, other       *corev1.Pod
}

// TestPermissions runs the tests that can share an installation, in order. The last ones stop the
// operator.
func TestPermissions(t *testing.T) {
	inst, asOperator := operator(t, install.Settings{ClusterTrustBundle: true})
	s := &site{inst: inst, operator: asOperator, own: pod(inst.Namespace, "server-0"), other: pod(inst.Namespace, "server-1")}
	inst.Create(t, s.own, s.other)
	s.server = as(t, inst, config.TokenServiceName, s.own.Name)
	inst.ServiceAccount(t, inst.Namespace, initialAdmin)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *site)
	}{
		{"token server reads only records", testTokenServerReadsOnlyRecords},
		{"token server writes only its usage reports", testTokenServerWritesOnlyItsUsageReports},
		{"token server writes only its Lease", testTokenServerWritesOnlyItsLease},
		{"operator writes only its Secrets", testOperatorWritesOnlyItsSecrets},
		{"operator leaves other objects alone", testOperatorLeavesOtherObjectsAlone},
		{"operator writes only its trust bundle", testOperatorWritesOnlyItsTrustBundle},
		{"operator runs only token servers", testOperatorRunsOnlyTokenServers},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

func key(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// pod returns a Pod of the token servers, which no node runs.
func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: key(namespace, name), Spec: corev1.PodSpec{
		ServiceAccountName: config.TokenServiceName,
		Containers:         []corev1.Container{{Name: "token-server", Image: "realmkeeper:test"}},
	}}
}
