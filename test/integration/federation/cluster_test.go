package federation_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// localIssuer is the issuer of the cluster that Realmkeeper runs in. Other clusters often have the
// same one.
const localIssuer = "https://kubernetes.default.svc"

// foreignCluster is a second Kubernetes cluster, whose Pods are clients of a realm.
type foreignCluster struct {
	controlPlane *controlplane.ControlPlane
	client       client.Client
	key          []byte // signs its tokens
}

// startForeignCluster starts a cluster with the same issuer as the local one and another key.
func startForeignCluster(t *testing.T, cluster *env.Env) *foreignCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := &foreignCluster{}
	var err error
	f.controlPlane, err = controlplane.Start(ctx, controlplane.Options{Dir: t.TempDir(), BinDir: cluster.BinDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.controlPlane.Stop(); err != nil {
			t.Errorf("Failed to stop the foreign cluster: %v", err)
		}
	})
	if f.key, err = f.controlPlane.ServiceAccountKey(); err != nil {
		t.Fatal(err)
	}
	if f.client, err = client.New(f.controlPlane.RESTConfig(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	// As in the guide: everybody can read the public keys.
	f.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "public-service-account-keys"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:service-account-issuer-discovery"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:unauthenticated"}},
	})
	return f
}

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := controlplane.NewServiceAccountKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// replaceKey restarts the API server with another key.
func (f *foreignCluster) replaceKey(t *testing.T) {
	t.Helper()
	f.key = newKey(t)
	if err := f.controlPlane.SetServiceAccountKey(f.key); err != nil {
		t.Fatal(err)
	}
	if err := f.controlPlane.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.controlPlane.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
}

// url returns keys that the operator gets from the API server.
func (f *foreignCluster) url() v1beta1.IssuerKeys {
	config := f.controlPlane.RESTConfig()
	return v1beta1.IssuerKeys{JWKSURI: config.Host + "/openid/v1/jwks", CABundle: v1beta1.IssuerCABundle(config.CAData)}
}

func (f *foreignCluster) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	create(t, f.client, objects...)
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("Failed to create %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
		}
	}
}

// subject returns the subject of a Pod's tokens.
func subject(pod *corev1.Pod) string {
	return "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName
}

var clusterAlgorithms = []jose.SignatureAlgorithm{jose.ES256}

// resigned returns a copy of a token with changed claims and the same key ID, signed with the given
// key. A nil value removes a claim.
func resigned(t *testing.T, token string, key []byte, change map[string]any) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, clusterAlgorithms)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	signed := jose.JSONWebKey{Key: parseKey(t, key), KeyID: parsed.Headers[0].KeyID}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: signed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func parseKey(t *testing.T, data []byte) *ecdsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode(data)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyID(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, clusterAlgorithms)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Headers[0].KeyID
}
