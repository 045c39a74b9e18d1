package authority_test

import (
	"context"
	"crypto/x509"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOutdatedCredentialsSecrets(t *testing.T) {
	older := newCA(t, start, 100*day).Chain
	i := published(t)
	i.ca.Previous = newCA(t, start, 200*day).Chain
	current, next, previous := i.ca.Current.Chain, i.ca.Next.Chain, i.ca.Previous
	tests := map[string]struct {
		contains [][]*x509.Certificate
		change   func(*v1alpha1.ApiClient, *corev1.Secret)
		want     bool
	}{
		"the bundle":                   {contains: [][]*x509.Certificate{current, next, previous}},
		"in another order":             {contains: [][]*x509.Certificate{next, previous, current}},
		"a CA that left the bundle":    {contains: [][]*x509.Certificate{older, current, next, previous}},
		"without the previous CA":      {contains: [][]*x509.Certificate{current, next}},
		"without the next CA":          {contains: [][]*x509.Certificate{current, previous}, want: true},
		"without the CA that signs":    {contains: [][]*x509.Certificate{next, previous}, want: true},
		"nothing":                      {want: true},
		"the bundle under another key": {contains: [][]*x509.Certificate{current, next}, change: rename("tls-ca"), want: true},
		"the bundle under the right key": {contains: [][]*x509.Certificate{current, next}, change: func(c *v1alpha1.ApiClient, s *corev1.Secret) {
			rename("tls-ca")(c, s)
			c.Spec.Secret.Generated.Keys = map[string]v1alpha1.SecretDataKey{"ca.crt": "tls-ca"}
		}},
		"a client that is not accepted": {change: func(c *v1alpha1.ApiClient, _ *corev1.Secret) {
			meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: string(v1alpha1.ConditionAccepted), Status: metav1.ConditionFalse, Reason: "X"})
		}},
		"a client with a provided secret now": {change: func(c *v1alpha1.ApiClient, _ *corev1.Secret) { c.Spec.Secret = nil }},
		"the Secret of another client":        {change: func(_ *v1alpha1.ApiClient, s *corev1.Secret) { s.OwnerReferences[0].UID = "other" }},
		"the Secret of no client":             {change: func(_ *v1alpha1.ApiClient, s *corev1.Secret) { s.OwnerReferences = nil }},
		"a Secret that is no longer used":     {change: func(c *v1alpha1.ApiClient, _ *corev1.Secret) { c.Spec.Secret.Generated.SecretName = "other" }},
		"another namespace":                   {change: func(c *v1alpha1.ApiClient, s *corev1.Secret) { c.Namespace, s.Namespace = "elsewhere", "elsewhere" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.ApiClient{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing", UID: "uid"},
				Spec:       v1alpha1.ApiClientSpec{Secret: &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{}}},
			}
			var bundle []byte
			for _, list := range test.contains {
				bundle = append(bundle, certificate.Encode(list)...)
			}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "team", Name: "billing", Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretGenerated},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ApiClient", Name: "billing", UID: "uid", Controller: new(true)}},
				},
				Data: map[string][]byte{"ca.crt": bundle},
			}
			if test.change != nil {
				test.change(c, secret)
			}
			secret.Annotations = map[string]string{}
			authority.Summarize(secret.Data, secret.Annotations)
			secret.Data = nil
			credentials := authority.Credentials{
				Cached: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(c, secret).Build(),
				Serves: func(_ context.Context, namespace string) (bool, error) { return namespace == "team", nil },
			}
			got, err := credentials.Outdated(t.Context(), i.ca)
			if err != nil || (len(got) == 1) != test.want {
				t.Errorf("%d outdated Secrets, error %v, want one: %t", len(got), err, test.want)
			}
		})
	}
}

func rename(key string) func(*v1alpha1.ApiClient, *corev1.Secret) {
	return func(_ *v1alpha1.ApiClient, s *corev1.Secret) { s.Data = map[string][]byte{key: s.Data["ca.crt"]} }
}

// Tenants can put any data into their Secrets. The memory for one doesn't depend on it.
func TestSummaryIsSmall(t *testing.T) {
	data := map[string][]byte{}
	one := certificate.Encode(newCA(t, start, day).Chain)
	for n := range 100 {
		data[strconv.Itoa(n)] = one
	}
	annotations := map[string]string{}
	authority.Summarize(data, annotations)
	for _, value := range annotations {
		if len(value) > 1024 {
			t.Errorf("a Secret with 100 certificates needs %d bytes", len(value))
		}
	}
}
