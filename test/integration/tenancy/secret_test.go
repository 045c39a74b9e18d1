package tenancy_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An attacker refers to a provided Secret of another tenant, to learn whether its own guess of the
// value is right.
func testForeignProvidedSecret(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.grant(t, attacker)
	own, _ := hashedSecret(t)
	foreign := scenario.ProvidedSecret(b.owner(), own)
	foreign.Labels = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	b.inst.Create(t, foreign)

	c := attacker.apiClient("thief", bankName, "", scenario.UseProvidedSecret)(t)
	expectRejected(t, b.inst, c, v1beta1.ReasonSecretNotFound)
	expectNoToken(t, b.inst, scenario.Credentials(c, own))
	for _, name := range []string{b.owner() + "/" + foreign.Name, "../../" + b.owner() + "/secrets/" + foreign.Name, "..%2F" + foreign.Name} {
		c := install.ApiClient(attacker.namespace, "path", bankName, scenario.UseProvidedSecret)
		c.Spec.Secret.Provided.SecretRef.Name = name
		if err := attacker.Create(t.Context(), c); !apierrors.IsInvalid(err) {
			t.Errorf("a client that refers to the Secret %q gets %v, want 422", name, err)
		}
	}
}

// An attacker may create ApiClients in the victim's namespace, but may not read or write Secrets. It
// makes the operator write to the victim's credentials Secret, and to one that isn't the operator's.
func testForeignCredentialsSecret(t *testing.T, b *bank) {
	rule := rbacv1.PolicyRule{APIGroups: []string{v1beta1.GroupVersion.Group}, Resources: []string{"apiclients"}, Verbs: []string{"create"}}
	attacker := newUser(t, b.inst, b.owner(), "creator", newRole(t, b.inst, "creator", rule))
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.owner(), Name: "database"}, Data: map[string][]byte{"password": []byte("swordfish")}}
	b.inst.Create(t, foreign)
	for name, secret := range map[string]string{"over-client": b.victims[0].credentials.Name, "over-foreign": foreign.Name} {
		c := install.ApiClient(b.owner(), name, bankName, func(c *v1beta1.ApiClient) {
			c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{SecretName: secret}}
		})
		createAs(t, attacker, c)
		expectRejected(t, b.inst, c, v1beta1.ReasonSecretConflict)
	}
	// The operator looks for a Secret with the default name only after its creation has failed.
	namesake := install.ApiClient(b.owner(), foreign.Name, bankName)
	createAs(t, attacker, namesake)
	b.inst.AwaitReady(t, namesake, metav1.ConditionFalse, v1beta1.ReasonSecretConflict)
	for _, secret := range scenario.Records(t, b.inst) {
		if body, err := record.ReadClient(&secret); err == nil && body.UID == namesake.UID && !body.Disabled {
			t.Error("The record of a rejected ApiClient is not disabled")
		}
	}
	expectUnchanged(t, b.inst, foreign)
}

// An attacker has the operator write a Secret with metadata on which other controllers act, for
// example one that makes Argo CD accept the Secret as a cluster, or Helm as a release.
func testForeignMetadata(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.grant(t, attacker)
	allowed := v1beta1.SecretTemplate{Labels: map[string]v1beta1.LabelValue{"team": "a"}, Annotations: map[string]v1beta1.AnnotationValue{"note": "a"}}
	withTemplate := func(template v1beta1.SecretTemplate) func(*v1beta1.ApiClient) {
		return func(c *v1beta1.ApiClient) {
			c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{Template: template}}
		}
	}
	existing := attacker.apiClient("existing", bankName, "", withTemplate(allowed))(t)
	for name, template := range map[string]v1beta1.SecretTemplate{
		"label":        {Labels: map[string]v1beta1.LabelValue{"argocd.argoproj.io/secret-type": "cluster"}},
		"helm":         {Labels: map[string]v1beta1.LabelValue{"owner": "helm", "app": "shop"}},
		"annotation":   {Annotations: map[string]v1beta1.AnnotationValue{"reflector.v1.k8s.emberstack.com/reflection-allowed": "true"}},
		"client-label": {Labels: map[string]v1beta1.LabelValue{v1beta1.ClientSecretLabel: "x"}},
		"record-label": {Labels: map[string]v1beta1.LabelValue{v1beta1.RecordLabel: "x"}},
	} {
		c := install.ApiClient(attacker.namespace, name, bankName, withTemplate(template))
		if err := attacker.Create(t.Context(), c); !apierrors.IsInvalid(err) {
			t.Errorf("creating a client with a %s in its template gets %v, want 422", name, err)
		}
		changed := existing.DeepCopy()
		withTemplate(template)(changed)
		if err := attacker.Patch(t.Context(), changed, client.MergeFrom(existing)); !apierrors.IsInvalid(err) {
			t.Errorf("adding a %s to the template of a client gets %v, want 422", name, err)
		}
	}
}

// An attacker creates Secrets that look like the victim's credentials Secret: with the label, and
// with an owner reference to the victim. It does so in its own namespace and, with a permission to
// create Secrets only, in the victim's.
func testForeignOwnerReferences(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}
	deployer := newUser(t, b.inst, b.owner(), "deployer", newRole(t, b.inst, "deployer", rule))
	for _, v := range b.victims {
		own, _ := hashedSecret(t)
		fake := func(namespace, name string) *corev1.Secret {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: v.credentials.Labels}, Data: map[string][]byte{}}
			maps.Copy(s.Data, v.credentials.Data)
			s.Data[v1beta1.SecretKeyClientSecret] = []byte(own)
			s.OwnerReferences = v.credentials.OwnerReferences
			return s
		}
		attacker.create(t, fake(attacker.namespace, v.credentials.Name))
		createAs(t, deployer, fake(b.owner(), "a-"+v.credentials.Name)) // listed before the real one
		err := deployer.Create(t.Context(), fake(b.owner(), v.credentials.Name))
		if !apierrors.IsAlreadyExists(err) {
			t.Errorf("the credentials Secret is replaced: %v", err)
		}
		install.Eventually(t, "the operator to delete the fake Secret", func() error {
			return install.NotFound(b.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: b.owner(), Name: "a-" + v.credentials.Name}, &corev1.Secret{}))
		})
		v.expectUnharmed(t)
		expectNoToken(t, b.inst, v.credentialsWith(own))
	}
}

// An attacker puts the product's labels on Secrets of its own, one of which is a record of the
// victim's client ID with the attacker's secret. The operator and the token servers ignore them.
func testForeignLabels(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.grant(t, attacker)
	own, hash := hashedSecret(t)
	victim := b.victims[0]
	body, err := record.ReadClient(victim.record)
	if err != nil {
		t.Fatal(err)
	}
	body.Secrets = []record.ClientSecret{{ID: "own", CreatedAt: victim.client.CreationTimestamp.Time, Hash: hash.Hashed[0].Hash}}
	applied, err := recordsecret.ForClient(attacker.namespace, body)
	if err != nil {
		t.Fatal(err)
	}
	lookalike := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: attacker.namespace, Name: *applied.Name, Labels: applied.Labels, Annotations: applied.Annotations}, Data: applied.Data}
	var foreign []*corev1.Secret
	for name, labels := range map[string]map[string]string{
		"generated": {v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated},
		"provided":  {v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided},
		"managed":   {v1beta1.ManagedByLabel: v1beta1.ManagedBy, v1beta1.RecordLabel: v1beta1.RecordClient},
	} {
		foreign = append(foreign, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: attacker.namespace, Name: name, Labels: labels},
			Data:       map[string][]byte{v1beta1.SecretKeyClientSecret: []byte(own)},
		})
	}
	foreign = append(foreign, lookalike)
	for _, secret := range foreign {
		attacker.create(t, secret)
	}
	// Once a later client is usable, the operator and the token servers have seen the Secrets.
	newHolder(t, b.inst, attacker.apiClient("honest", bankName, ""))
	expectNoToken(t, b.inst, victim.credentialsWith(own))
	for _, secret := range foreign {
		expectUnchanged(t, b.inst, secret)
	}
	recordsNamespace := lookalike.DeepCopy()
	recordsNamespace.Namespace, recordsNamespace.ResourceVersion, recordsNamespace.UID = b.inst.RecordsNamespace, "", ""
	if err := attacker.Create(t.Context(), recordsNamespace); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant that creates a record gets %v, want 403", err)
	}
}

// expectUnchanged checks that a Secret has not changed since it was created.
func expectUnchanged(t *testing.T, inst *install.Installation, created *corev1.Secret) {
	t.Helper()
	now := &corev1.Secret{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(created), now); err != nil || now.UID != created.UID || now.ResourceVersion != created.ResourceVersion {
		t.Errorf("Secret %s has changed: %s, %v", created.Name, cmp.Diff(created, now), err)
	}
}

// A tenant can't write status. A status that someone else has forged neither grants nor removes
// access.
func testForgedStatus(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.grant(t, attacker, paymentsID)
	c := attacker.apiClient("payments", bankName, paymentsID)(t)
	expectRejected(t, b.inst, c, v1beta1.ReasonClientIDConflict)
	forged := c.DeepCopy()
	forged.Status = b.victims[0].client.Status
	if err := attacker.Status().Update(t.Context(), forged); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant that writes status gets %v, want 403", err)
	}
	forgeStatus(t, b, c.DeepCopy(), b.victims[0].client.Status)
	expectRejected(t, b.inst, c, v1beta1.ReasonClientIDConflict)

	forgeStatus(t, b, b.victims[0].client.DeepCopy(), c.Status)
	b.expectUnharmed(t)
}

// forgeStatus writes a status as an administrator, even if the operator writes at the same time.
func forgeStatus(t *testing.T, b *bank, of *v1beta1.ApiClient, status v1beta1.ApiClientStatus) {
	t.Helper()
	install.Eventually(t, "a forged status", func() error {
		if err := b.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(of), of); err != nil {
			return err
		}
		of.Status = status
		return b.inst.Env.Client.Status().Update(t.Context(), of)
	})
}
