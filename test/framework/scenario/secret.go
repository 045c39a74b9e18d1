package scenario

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Credentials returns a credentials Secret for the given client and client secret.
func Credentials(c *v1beta1.ApiClient, secret string) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		v1beta1.SecretKeyTokenURL: []byte(c.Status.TokenEndpoint), v1beta1.SecretKeyClientID: []byte(c.Status.ClientID),
		v1beta1.SecretKeyClientSecret: []byte(secret),
	}}
}

// Name and key of the Secret that ProvidedSecret returns.
const (
	providedName = "external"
	providedKey  = "PASSWORD"
)

// ProvidedSecret returns a Secret that a client can refer to. It doesn't have the label that the
// operator requires to read it.
func ProvidedSecret(namespace, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: providedName},
		Data:       map[string][]byte{providedKey: []byte(value)},
	}
}

// UseProvidedSecret makes a client refer to the Secret that ProvidedSecret returns.
func UseProvidedSecret(c *v1beta1.ApiClient) {
	c.Spec.Secret = &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{
		SecretRef: v1beta1.SecretKeyReference{Name: providedName, Key: providedKey},
	}}
}

// ClientSecret returns the client secret in a credentials Secret.
func ClientSecret(credentials *corev1.Secret) string {
	return string(credentials.Data[v1beta1.SecretKeyClientSecret])
}

// RotatingSecret returns a generated secret whose predecessor stays valid for the given time.
func RotatingSecret(overlap time.Duration) *v1beta1.ClientSecretSource {
	return &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{Rotation: v1beta1.SecretRotation{
		Overlap: &v1beta1.Duration{Duration: overlap},
	}}}
}

// RotateSecret requests a rotation one second after the client's newest secret was created. This is
// the earliest possible time, because creation times have a resolution of one second.
func RotateSecret(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) {
	t.Helper()
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) {
		newest := c.Status.Secrets()[len(c.Status.Secrets())-1]
		c.Spec.Secret.Generated.Rotation.RotationRequestTime = &metav1.Time{Time: newest.CreationTime.Add(time.Second)}
	})
}

// RecordName returns the name of a client's record.
func RecordName(t testing.TB, inst *install.Installation, c *v1beta1.ApiClient) string {
	t.Helper()
	realm := &v1beta1.Realm{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm); err != nil {
		t.Fatal(err)
	}
	return record.ClientRecordName(realm.UID, c.EffectiveClientID())
}

// Record returns the record of a client.
func Record(t testing.TB, inst *install.Installation, c *v1beta1.ApiClient) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: RecordName(t, inst, c)}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// AwaitSecretRotated waits until the requested rotation is complete and the old secret has expired.
func AwaitSecretRotated(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) {
	t.Helper()
	requested := c.Spec.Secret.Generated.Rotation.RotationRequestTime
	install.Eventually(t, "the rotation of "+c.Name, func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		secrets := c.Status.Secrets()
		if len(secrets) != 1 || secrets[0].CreationTime.Before(requested) || c.Status.LastRotationTime == nil || c.Status.LastRotationTime.Before(requested) {
			return fmt.Errorf("its secrets are %v, and the last rotation was at %v", secrets, c.Status.LastRotationTime)
		}
		return nil
	})
}
