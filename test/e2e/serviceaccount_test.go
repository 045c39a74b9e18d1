//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
)

// TestPodAuthenticatesWithServiceAccount runs a Pod without a Secret. It gets an access token with
// the service account token that the kubelet mounts. A Pod that runs as the service account
// "default" is rejected.
func TestPodAuthenticatesWithServiceAccount(t *testing.T) {
	useInstallation(t)
	apps := namespace(t, "apps")
	c := apiClient(apps, "ledger", "acme")
	c.Spec.Secret, c.Spec.Identities = nil, []v1beta1.Identity{{Name: "ledger", ServiceAccount: v1beta1.ServiceAccountReference{Name: "ledger"}}}
	create(t, realm("acme"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "ledger"}}, c)
	awaitReady(t, c)

	bundle := &corev1.ConfigMap{}
	get(t, systemNamespace, tokenservice.BundleName, bundle)
	create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "ledger"},
		Data: map[string]string{
			"client_id":         c.Status.ClientID,
			"cluster_token_url": "https://" + tokenService + "." + systemNamespace + ".svc/acme/oauth2/token",
			"ca.crt":            bundle.Data["ca.crt"],
		},
	})
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	caller, other := podAs(apps, "ledger", "ledger", issuer), podAs(apps, "other", "default", issuer)
	create(t, caller, other)
	if printed := strings.TrimSpace(succeeds(t, caller)); strings.Count(printed, ".") != 2 {
		t.Errorf("the pod printed %s, want a token", printed)
	}
	eventually(t, "the pod that runs as default to finish", func() error {
		get(t, apps, other.Name, other)
		if other.Status.Phase != corev1.PodSucceeded && other.Status.Phase != corev1.PodFailed {
			return errNotYet
		}
		return nil
	})
	if printed := kubectl(t, "logs", "--namespace", apps, other.Name); other.Status.Phase != corev1.PodFailed || !strings.Contains(printed, "invalid_client") {
		t.Errorf("the pod that runs as default is %s with output %s, want Failed and invalid_client", other.Status.Phase, printed)
	}
	secrets := &corev1.SecretList{}
	if err := cluster.List(t.Context(), secrets, client.InNamespace(apps)); err != nil || len(secrets.Items) != 0 {
		t.Errorf("got %d Secrets in the namespace, want none (%v)", len(secrets.Items), err)
	}
}

// podAs returns a Pod that requests a token as the given service account. The ConfigMap "ledger"
// provides the client ID and the URLs.
func podAs(namespace, name, account, audience string) *corev1.Pod {
	p := pod(namespace, name, "", "token")
	p.Spec.ServiceAccountName = account
	p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "ledger"}}},
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: new(int64(600)), Path: "client_assertion"}},
	}}}
	return p
}
