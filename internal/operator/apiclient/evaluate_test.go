package apiclient_test

import (
	"crypto/rand"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cluster holds the objects that Evaluate reads, and those that its decisions write.
type cluster struct {
	t       *testing.T
	objects apiclient.Objects
}

func newCluster(t *testing.T, spec v1alpha1.ApiClientSpec) *cluster {
	spec.RealmRef.Name = "acme"
	return &cluster{t, apiclient.Objects{
		Client: &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing", UID: "c1"}, Spec: spec},
		Realm: &v1alpha1.Realm{
			ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "r1"},
			Spec: v1alpha1.RealmSpec{Grants: []v1alpha1.Grant{{
				Name: "team", Scopes: v1alpha1.Scopes{"*"}, ClientIDs: []string{"shared.*"},
				Namespaces: v1alpha1.GrantedNamespaces{Selector: &v1alpha1.NamespaceSelector{MatchLabels: v1alpha1.Labels{"tier": "gold"}}},
			}}},
			Status: v1alpha1.RealmStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready"}}},
		},
		Namespaces: map[string]map[string]string{"team": {"tier": "gold"}, "other": {}},
		Records:    map[string]*corev1.Secret{}, Secrets: map[string]*corev1.Secret{}, Accounts: map[string]types.UID{},
		Authority: []byte("PEM"),
	}}
}

// evaluate makes and writes decisions until no secret is pending, and returns the last decision.
func (c *cluster) evaluate() apiclient.Evaluation {
	c.t.Helper()
	for range 3 {
		e, err := apiclient.Evaluate(c.objects, instance(), now, rand.Reader)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, body := range e.Subjects {
			desired, err := record.ForSubject("records", body)
			c.put(c.objects.Records, desired, err)
		}
		if e.Record != nil {
			desired, err := record.ForClient("records", *e.Record)
			c.put(c.objects.Records, desired, err)
		}
		if e.Credentials != nil {
			c.put(c.objects.Secrets, e.Credentials, nil)
		}
		for _, secret := range e.Obsolete {
			delete(c.objects.Secrets, secret.Name)
		}
		c.objects.Pending, c.objects.Client.Status = e.Pending, e.Status
		if e.Pending == "" {
			return e
		}
	}
	c.t.Fatal("a secret stays pending")
	return apiclient.Evaluation{}
}

func (c *cluster) put(into map[string]*corev1.Secret, desired any, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	secret, err := apply.Convert[corev1.Secret](desired)
	if err != nil {
		c.t.Fatal(err)
	}
	into[secret.Name] = secret
}

func instance() *config.Instance {
	return &config.Instance{
		InstanceDomain: "example.com", ExternalPort: 443, SystemNamespace: "system",
		Security: config.Security{DefaultTokenLifetime: metav1.Duration{Duration: time.Hour}},
		TLS:      config.TLS{Managed: &config.ManagedTLS{}},
	}
}

func wantReason(t *testing.T, e apiclient.Evaluation, kind v1alpha1.ConditionType, want v1alpha1.ConditionReason) {
	t.Helper()
	if c := meta.FindStatusCondition(e.Status.Conditions, string(kind)); c == nil || c.Reason != string(want) {
		t.Errorf("condition %s is %v, want reason %s", kind, c, want)
	}
}

func generated() *v1alpha1.ClientSecretSource {
	return &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{}}
}

// verify reports whether one of the secrets in a record has the given plaintext.
func verify(t *testing.T, body *record.Client, plaintext string) bool {
	t.Helper()
	for _, s := range body.Secrets {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		if err != nil {
			t.Fatal(err)
		}
		if verifier.Verify(plaintext) {
			return true
		}
	}
	return false
}

func TestEvaluateDeliversGeneratedSecret(t *testing.T) {
	c := newCluster(t, v1alpha1.ApiClientSpec{Secret: generated()})
	e := c.evaluate()
	wantReason(t, e, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	secret := c.objects.Secrets["billing"]
	if secret == nil || !verify(t, e.Record, string(secret.Data[v1alpha1.SecretKeyClientSecret])) {
		t.Fatalf("credentials Secret %v, want a secret that the record verifies", secret)
	}
	if again := c.evaluate(); !record.Equal(*again.Record, *e.Record) {
		t.Error("a second evaluation changes the record")
	}
	c.objects.Client.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: "a", Hash: e.Record.Secrets[0].Hash}}}
	c.evaluate()
	c.objects.Client.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{}}
	if c.evaluate(); len(c.objects.Secrets) > 0 {
		t.Error("the credentials Secret is kept, although the client has no generated secret")
	}
}

func TestEvaluateHashesProvidedSecret(t *testing.T) {
	const plaintext = "correct horse battery staple"
	c := newCluster(t, v1alpha1.ApiClientSpec{Secret: &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{
		SecretRef: v1alpha1.SecretKeyReference{Name: "vault"},
	}}})
	wantReason(t, c.evaluate(), v1alpha1.ConditionAccepted, v1alpha1.ReasonSecretNotFound)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "vault", UID: "s1", ResourceVersion: "1"},
		Data:       map[string][]byte{v1alpha1.SecretKeyClientSecret: []byte(plaintext)},
	}
	c.objects.Secrets["vault"] = secret
	wantReason(t, c.evaluate(), v1alpha1.ConditionAccepted, v1alpha1.ReasonSecretNotLabelled)
	secret.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	e := c.evaluate()
	wantReason(t, e, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	if !verify(t, e.Record, plaintext) {
		t.Error("the record does not verify the provided secret")
	}
	if again := c.evaluate(); !record.Equal(*again.Record, *e.Record) {
		t.Error("an unchanged value is hashed again")
	}
}

func TestEvaluateRespectsOtherClients(t *testing.T) {
	c := newCluster(t, v1alpha1.ApiClientSpec{ServiceAccounts: []v1alpha1.ServiceAccountReference{{Name: "billing"}}})
	wantReason(t, c.evaluate(), v1alpha1.ConditionReady, v1alpha1.ReasonServiceAccountNotFound)
	c.objects.Accounts["billing"] = "a1"
	e := c.evaluate()
	wantReason(t, e, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	if len(e.Subjects) != 1 {
		t.Fatalf("subjects %v, want the subject of the service account", e.Subjects)
	}

	rival := newCluster(t, v1alpha1.ApiClientSpec{ServiceAccounts: c.objects.Client.Spec.ServiceAccounts, ClientID: "team.billing"})
	rival.objects.Client.Name, rival.objects.Client.UID = "rival", "c2"
	rival.objects.Realm.Spec.Grants[0].ClientIDs = []string{"team.billing"}
	rival.objects.Accounts = c.objects.Accounts
	rival.objects.Records = maps.Clone(c.objects.Records)
	wantReason(t, rival.evaluate(), v1alpha1.ConditionAccepted, v1alpha1.ReasonClientIDConflict)
	rival.objects.Client.Spec.ClientID = ""
	if e := rival.evaluate(); len(e.Subjects) > 0 || e.Record == nil {
		t.Errorf("subjects %v, record %v; want a record without the subject that another client holds", e.Subjects, e.Record)
	}
	c.objects.Client.Spec = v1alpha1.ApiClientSpec{RealmRef: v1alpha1.RealmReference{Name: "acme"}, Secret: generated()}
	if e := c.evaluate(); len(e.ObsoleteSubjects) != 1 {
		t.Errorf("obsolete subjects %v, want the subject of the service account", e.ObsoleteSubjects)
	}
}

func TestEvaluateReadsNamespaces(t *testing.T) {
	c := newCluster(t, v1alpha1.ApiClientSpec{Secret: generated(), ClientID: "shared.billing"})
	wantReason(t, c.evaluate(), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	c.objects.Namespaces["shared"] = map[string]string{}
	wantReason(t, c.evaluate(), v1alpha1.ConditionReady, v1alpha1.ReasonReady) // the client already holds the ID
	clear(c.objects.Records)
	wantReason(t, c.evaluate(), v1alpha1.ConditionAccepted, v1alpha1.ReasonNotGranted)
	c.objects.Namespaces["team"] = map[string]string{}
	wantReason(t, c.evaluate(), v1alpha1.ConditionAccepted, v1alpha1.ReasonNamespaceNotAllowed)
	c.objects.Realm = nil
	wantReason(t, c.evaluate(), v1alpha1.ConditionReady, v1alpha1.ReasonRealmNotFound)
}
