package scenario

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// with is what a consumer Secret would hold for a client whose secret came from elsewhere.
func Credentials(c *v1alpha1.ApiClient, secret string) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		v1alpha1.SecretKeyTokenURL: []byte(c.Status.TokenEndpoint), v1alpha1.SecretKeyClientID: []byte(c.Status.ClientID),
		v1alpha1.SecretKeyClientSecret: []byte(secret),
	}}
}

func ProvidedSecret(namespace, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vault"},
		Data:       map[string][]byte{"PASSWORD": []byte(value)},
	}
}

func UseProvidedSecret(c *v1alpha1.ApiClient) {
	c.Spec.Secret = &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{
		SecretRef: v1alpha1.SecretKeyReference{Name: "vault", Key: "PASSWORD"},
	}}
}

func ClientSecret(consumer *corev1.Secret) string {
	return string(consumer.Data[v1alpha1.SecretKeyClientSecret])
}

// rotatesAfter is a generated secret that rotates once after that instant.
func RotatingSecret(at *metav1.Time, overlap time.Duration) *v1alpha1.ClientSecretSource {
	return &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{Rotation: v1alpha1.SecretRotation{
		RotateAfter: at, Overlap: &metav1.Duration{Duration: overlap},
	}}}
}

// rotate has the newest secret of a client replaced as soon as may be: secrets know the second
// in which they were made.
func RotateSecret(t *testing.T, inst *install.Installation, c *v1alpha1.ApiClient) {
	t.Helper()
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) {
		newest := c.Status.Secrets[len(c.Status.Secrets)-1]
		c.Spec.Secret.Generated.Rotation.RotateAfter = &metav1.Time{Time: newest.CreatedAt.Add(time.Second)}
	})
}

// awaitRotated waits until a rotation that was asked for is over, the old secret's end included.
func AwaitSecretRotated(t *testing.T, inst *install.Installation, c *v1alpha1.ApiClient) {
	t.Helper()
	asked := c.Spec.Secret.Generated.Rotation.RotateAfter
	install.Eventually(t, "the rotation of "+c.Name, func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		secrets := c.Status.Secrets
		if len(secrets) != 1 || secrets[0].CreatedAt.Before(asked) || c.Status.LastRotationTime == nil || c.Status.LastRotationTime.Before(asked) {
			return fmt.Errorf("its secrets are %v, the last rotation was at %v", secrets, c.Status.LastRotationTime)
		}
		return nil
	})
}
