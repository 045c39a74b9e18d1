package permissions_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

var (
	generated = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated}
	provided  = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	recorded  = record.Labels(record.KindClient)
	both      = map[string]string{v1beta1.RecordLabel: v1beta1.RecordClient, v1beta1.ManagedByLabel: v1beta1.ManagedBy, v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated}
	released  = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated, "owner": "helm"}
)

// recordName, subjectName, and indexName are names of records of no ApiClient.
const (
	recordName  = "client-00000000-0000-4000-8000-000000000000"
	subjectName = "subject-0000000000000000000000000000000000000000000000000000000000000000"
	indexName   = "index-00000000-0000-4000-8000-000000000000-1048575"
	restoreName = "restore-0000000000000000000000000000000000000000000000000000000000000000"
	// releaseName is the name of a Secret that Helm treats as a release.
	releaseName = "sh.helm.release.v1.app.v2"
	// testName is the name of the credentials Secret of "helm test".
	testName = "realmkeeper-helm-test"
)

func secret(namespace, name string, labels map[string]string, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: key(namespace, name), Data: map[string][]byte{"password": []byte("before")}}
	s.Labels = labels
	for _, f := range change {
		f(s)
	}
	return s
}

func ofType(kind corev1.SecretType) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Type = kind }
}

// accountToken makes a Secret one in which Kubernetes stores a token of the initial admin.
func accountToken(s *corev1.Secret) {
	s.Type = corev1.SecretTypeServiceAccountToken
	s.Annotations = map[string]string{corev1.ServiceAccountNameKey: initialAdmin}
}

func create(obj client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, obj) }
}

func remove(obj client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, obj) }
}

// patch returns an attempt to change an object with a JSON merge patch.
func patch(obj client.Object, body string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(body)))
	}
}

const (
	addLabel        = `{"metadata": {"labels": {"auth.realmkeeper.dev/client-secret": "generated"}}}`
	addLabelAndData = `{"metadata": {"labels": {"auth.realmkeeper.dev/client-secret": "generated"}}, "stringData": {"password": "after"}}`
	changeData      = `{"stringData": {"password": "after"}}`
	addHelmLabel    = `{"metadata": {"labels": {"owner": "helm"}}}`
	restoreLabels   = `{"metadata": {"labels": {"auth.realmkeeper.dev/record": "client", "app.kubernetes.io/managed-by": "realmkeeper"}}, "stringData": {"password": "after"}}`
	adopt           = `{"metadata": {"annotations": {"auth.realmkeeper.dev/adopted-by": "1"}}}`
)

func testOperatorWritesOnlyItsSecrets(t *testing.T, s *site) {
	inst, operator, tenant := s.inst, s.operator, s.inst.Env.Namespace(t)
	inst.ServiceAccount(t, tenant, initialAdmin)
	foreign := secret(tenant, "foreign", nil)
	token := secret(tenant, "token", generated, accountToken)
	userProvided := secret(tenant, "provided", provided)
	credentials := secret(tenant, "credentials", generated)
	session := secret(inst.Namespace, "realmkeeper-portal-session", nil)
	restore := secret(inst.RecordsNamespace, restoreName, recorded)
	labeled := secret(inst.RecordsNamespace, strings.Replace(restoreName, "0", "2", 1), both)
	claimed, misplaced := secret(tenant, "claimed", released), secret(inst.Namespace, "misplaced", generated)
	unlabeled, unmanaged := secret(inst.RecordsNamespace, strings.Replace(recordName, "0", "1", 1), nil), secret(inst.RecordsNamespace, strings.Replace(recordName, "0", "2", 1), nil)
	inst.Create(t, unlabeled, unmanaged, foreign, token, userProvided, credentials, session, restore, labeled, claimed, misplaced)

	want := func(verb, namespace, name string) string {
		return deniedByPolicy + "The Realmkeeper operator must not " + verb + " Secret " + namespace + "/" + name + "."
	}
	const (
		reserved = " In this namespace, it can write only its records and certificates."
		release  = " Helm treats a Secret as a release if its name starts with sh.helm.release. or if it has the label owner=helm."
	)
	planted := "restore-" + strings.Repeat("b", 64)
	deny(t, operator, map[string]attempt{
		"create a service account token Secret": {create(secret(tenant, "new", generated, accountToken)), want("create", tenant, "new")},
		"create a Secret without the label":     {create(secret(tenant, "new", nil)), want("create", tenant, "new")},
		"create a provided Secret":              {create(secret(tenant, "new", provided)), want("create", tenant, "new")},
		"create a bootstrap token":              {create(secret("kube-system", "new", generated, ofType("bootstrap.kubernetes.io/token"))), want("create", "kube-system", "new")},
		"create a record elsewhere":             {create(secret(tenant, recordName, recorded)), want("create", tenant, recordName)},
		"create a certificate elsewhere": {
			create(secret(tenant, authority.SecretName, nil, withCertificate)), want("create", tenant, authority.SecretName),
		},
		"create a subject record elsewhere":       {create(secret(tenant, subjectName, recorded)), want("create", tenant, subjectName)},
		"create a subject record by another name": {create(secret(inst.RecordsNamespace, "subject-of-ci", recorded)), want("create", inst.RecordsNamespace, "subject-of-ci")},
		"create an index record elsewhere":        {create(secret(tenant, indexName, recorded)), want("create", tenant, indexName)},
		"create a record in the system namespace": {create(secret(inst.Namespace, recordName, recorded)), want("create", inst.Namespace, recordName)},
		"create a beacon elsewhere":               {create(secret(inst.Namespace, beacon.Name, recorded)), want("create", inst.Namespace, beacon.Name)},
		"create a record with another name":       {create(secret(inst.RecordsNamespace, "client", recorded)), want("create", inst.RecordsNamespace, "client")},

		// Nobody would see a record without the labels.
		"create a record without labels":           {create(secret(inst.RecordsNamespace, recordName, nil)), want("create", inst.RecordsNamespace, recordName)},
		"create a record that is not managed":      {create(secret(inst.RecordsNamespace, recordName, map[string]string{v1beta1.RecordLabel: v1beta1.RecordClient})), want("create", inst.RecordsNamespace, recordName)},
		"create a record without its kind":         {create(secret(inst.RecordsNamespace, recordName, map[string]string{v1beta1.ManagedByLabel: v1beta1.ManagedBy})), want("create", inst.RecordsNamespace, recordName)},
		"create a record with the label of others": {create(secret(inst.RecordsNamespace, indexName, recorded)), want("create", inst.RecordsNamespace, indexName)},
		"change a record without labels":           {patch(unlabeled, changeData), want("update", inst.RecordsNamespace, unlabeled.Name)},
		"take the labels off the beacon":           {patch(secret(inst.RecordsNamespace, beacon.Name, nil), `{"metadata": {"labels": null}}`), want("update", inst.RecordsNamespace, beacon.Name)},

		// Operators of earlier versions adopted such Secrets.
		"create a record of another kind": {create(secret(inst.RecordsNamespace, planted, recorded)), want("create", inst.RecordsNamespace, planted)},
		"create a record of another kind with the label of credentials": {
			create(secret(inst.RecordsNamespace, planted, both)), want("create", inst.RecordsNamespace, planted) + reserved,
		},
		"change a record of another kind":                               {patch(restore, changeData), want("update", inst.RecordsNamespace, restoreName)},
		"annotate a record of another kind":                             {patch(restore, adopt), want("update", inst.RecordsNamespace, restoreName)},
		"delete a record of another kind":                               {remove(restore), want("delete", inst.RecordsNamespace, restoreName)},
		"change a record of another kind with the label of credentials": {patch(labeled, changeData), want("update", inst.RecordsNamespace, labeled.Name) + reserved},
		"create credentials in the records namespace":                   {create(secret(inst.RecordsNamespace, "new", generated)), want("create", inst.RecordsNamespace, "new") + reserved},
		"create credentials in the system namespace":                    {create(secret(inst.Namespace, "new", generated)), want("create", inst.Namespace, "new") + reserved},
		"generate a name in the system namespace":                       {create(secret(inst.Namespace, "", generated, func(s *corev1.Secret) { s.GenerateName = testName })), reserved},

		"create a release of Helm":               {create(secret(tenant, releaseName, generated)), want("create", tenant, releaseName) + release},
		"create a Secret with the label of Helm": {create(secret(tenant, "new", released)), want("create", tenant, "new") + release},
		"add the label of Helm":                  {patch(credentials, addHelmLabel), want("update", tenant, "credentials") + release},

		"change a foreign Secret":             {patch(foreign, changeData), want("update", tenant, "foreign")},
		"relabel a foreign Secret":            {patch(foreign, addLabel), want("update", tenant, "foreign")},
		"relabel and change a foreign Secret": {patch(foreign, addLabelAndData), want("update", tenant, "foreign")},
		"apply a foreign Secret": {func(ctx context.Context, c client.Client) error {
			return c.Apply(ctx, corev1ac.Secret(foreign.Name, tenant).WithLabels(generated).WithStringData(map[string]string{"password": "after"}),
				client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership)
		}, want("update", tenant, "foreign")},
		"delete a foreign Secret":               {remove(foreign), want("delete", tenant, "foreign")},
		"relabel a provided Secret":             {patch(userProvided, addLabel), want("update", tenant, "provided")},
		"delete a provided Secret":              {remove(userProvided), want("delete", tenant, "provided")},
		"change a labeled Secret of other type": {patch(token, changeData), want("update", tenant, "token")},
		"delete a labeled Secret of other type": {remove(token), want("delete", tenant, "token")},
		"take the label off":                    {patch(credentials, `{"metadata": {"labels": null}}`), want("update", tenant, "credentials")},
		"change the portal's session key":       {patch(session, addLabelAndData), want("update", inst.Namespace, session.Name)},
		"delete the certificate authority":      {remove(secret(inst.Namespace, authority.SecretName, nil)), want("delete", inst.Namespace, authority.SecretName)},
	})

	// The same requests are allowed for Secrets of the operator, so it isn't RBAC that denies them.
	for name, do := range map[string]func(context.Context, client.Client) error{
		"create a credentials Secret":    create(secret(tenant, "allowed", generated)),
		"change a credentials Secret":    patch(credentials, changeData),
		"create a record":                create(secret(inst.RecordsNamespace, recordName, recorded)),
		"create a subject record":        create(secret(inst.RecordsNamespace, subjectName, record.Labels(record.KindSubject))),
		"create an index record":         create(secret(inst.RecordsNamespace, indexName, record.Labels(record.KindIndex))),
		"restore the labels of a record": patch(unlabeled, restoreLabels),
		"delete a record without labels": remove(unmanaged),
		"change the beacon":              patch(secret(inst.RecordsNamespace, beacon.Name, recorded), changeData),
		"create the Secret of helm test": create(secret(inst.Namespace, testName, generated)),
		// A tenant can add the label, and older clients can have Secrets in the system namespace.
		"delete a credentials Secret with the label of Helm":  remove(claimed),
		"delete a credentials Secret in the system namespace": remove(misplaced),
	} {
		t.Run(name, func(t *testing.T) {
			if err := do(t.Context(), operator); err != nil {
				t.Error(err)
			}
		})
	}
	if err := operator.Delete(t.Context(), secret(tenant, "allowed", nil)); err != nil {
		t.Errorf("Failed to delete a credentials Secret: %v", err)
	}
	// A Secret's type can't be changed at all.
	if err := patch(credentials, `{"type": "kubernetes.io/service-account-token"}`)(t.Context(), operator); err == nil {
		t.Error("The type of a credentials Secret was changed")
	}
	for _, s := range []*corev1.Secret{foreign, userProvided} {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil || string(s.Data["password"]) != "before" {
			t.Errorf("Secret %s has changed: %v, %v", s.Name, s, err)
		}
	}
}

// The operator creates no credentials Secret among the Secrets of Realmkeeper itself, where its name
// could have a meaning.
func TestNoCredentialsSecretInOwnNamespaces(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	inst.StartOperator(t, "")
	inst.Create(t, install.Realm("acme"))
	for _, namespace := range []string{inst.Namespace, inst.RecordsNamespace} {
		c := install.ApiClient(namespace, "billing", "acme", func(c *v1beta1.ApiClient) {
			c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{SecretName: recordName}}
		})
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonCredentialsSecretsDisabled)
		if err := install.NotFound(inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: recordName}, &corev1.Secret{})); err != nil {
			t.Errorf("The credentials Secret in %s: %v", namespace, err)
		}
	}
	if log := inst.OperatorLog(t); bytes.Contains(log, []byte("forbidden")) {
		t.Errorf("The operator tries what it may not do:\n%s", log)
	}
}

// withCertificate makes a Secret one with a certificate. The API server requires both keys.
func withCertificate(s *corev1.Secret) {
	s.Type = corev1.SecretTypeTLS
	s.Data = map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}}
}
