package permissions_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/test/framework/console"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/leak"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// canary is in everything that the attacker names.
const canary = "attacker-was-here"

// farFuture is later than any clock can be ahead.
var farFuture = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)

// TestRecover runs the commands of "Recover" in docs/security.md after an attack with the operator's
// credentials. Nothing that the attacker wrote may remain, and all clients must work again.
func TestRecover(t *testing.T) {
	inst, asOperator := operator(t, install.Settings{ClusterTrustBundle: true})
	inst.StopOperator(t)
	inst.LeaderElection = true
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	realm := install.Realm("acme", func(r *v1beta1.Realm) { r.Spec.StatusList.Enabled = true })
	namespace := inst.Env.Namespace(t)
	value, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	external := scenario.ProvidedSecret(namespace, value)
	external.Labels = provided
	c, p := install.ApiClient(namespace, "billing", realm.Name), install.ApiClient(namespace, "shop", realm.Name, scenario.UseProvidedSecret)
	inst.Create(t, realm, external, c, p)
	for _, one := range []*v1beta1.ApiClient{c, p} {
		inst.AwaitReady(t, one, metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	credentials := inst.CredentialsSecret(t, c)
	before := inst.AccessToken(t, credentials)

	inst.StopOperator(t) // The attacker has replaced it.
	a := &attack{inst: inst, as: asOperator, realm: realm}
	a.changeTokenService(t)
	a.recordKeyAndSecret(t, c)
	stolen := scenario.Credentials(c, a.secret)
	inst.AwaitTokens(t, stolen, true)
	forged := a.forge(t, before)
	inst.AwaitValid(t, realm.Name, forged, true)
	a.hideAndSquat(t, c, namespace)
	a.lieAboutTimes(t)
	a.replaceCertificates(t)
	if found := a.found(t); len(found) < 15 {
		t.Fatalf("The attacker is only in %q", found)
	}

	h := &harness{inst: inst}
	inst.Create(t, h.deployment())
	shell := newShell(t, inst)
	blocks := console.Blocks(t, "docs/security.md",
		"deployment realmkeeper-operator --replicas=0", "delete replicasets", "delete clustertrustbundle", "delete lease", "deployment realmkeeper-operator --replicas=1")
	for _, block := range blocks {
		for _, command := range block.Commands {
			block.Commands = []console.Command{command}
			shell.Run(t, block)
			h.follow(t)
		}
	}
	h.awaitTokenServers(t)

	scenario.AwaitUsable(t, inst, c)
	inst.AwaitReady(t, p, metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.AwaitTokens(t, scenario.Credentials(p, value), true)
	future := install.ApiClient(namespace, "future", realm.Name)
	inst.Create(t, future)
	inst.AwaitReady(t, future, metav1.ConditionTrue, v1beta1.ReasonReady)
	renewed := inst.CredentialsSecret(t, c)
	inst.AwaitTokens(t, renewed, true)
	inst.AwaitValid(t, realm.Name, inst.AccessToken(t, renewed), true)

	inst.AwaitTokens(t, stolen, false)
	inst.AwaitTokens(t, credentials, false)
	for name, token := range map[string]string{"before the recovery": before, "by the attacker": forged} {
		if inst.Valid(t, realm.Name, token) {
			t.Errorf("A token that was signed %s is valid", name)
		}
	}
	if keys := publishedKeys(t, inst, renewed); strings.Contains(keys, a.key.ID) {
		t.Errorf("The JWKS contains the attacker's key: %s", keys)
	}
	if bundle := inst.CABundle(t); strings.Contains(string(bundle), a.certificate) {
		t.Error("Clients trust the attacker's CA")
	}
	install.Eventually(t, "everything of the attacker to be deleted", func() error {
		if found := a.found(t); len(found) > 0 {
			return fmt.Errorf("the attacker is still in %q", found)
		}
		return nil
	})
	instance := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}}
	inst.AwaitReady(t, instance, metav1.ConditionTrue, v1beta1.ReasonReady)
}

// TestRecoverFromTokenServer runs the commands for a compromise of a token server, which knows all signing keys.
// Clients keep their secrets.
func TestRecoverFromTokenServer(t *testing.T) {
	inst, _ := operator(t, install.Settings{})
	inst.StartTokenServer(t)
	realm, c := scenario.NewClient(t, inst, "acme")
	credentials, trusted := inst.CredentialsSecret(t, c), string(inst.CABundle(t))
	before, keys := inst.AccessToken(t, credentials), publishedKeys(t, inst, credentials)

	newShell(t, inst).Run(t, console.Blocks(t, "docs/security.md", "delete secrets -l auth.realmkeeper.dev/record=realm")...)
	inst.StopTokenServers(t)
	install.Eventually(t, "another CA", func() error {
		if string(inst.CABundle(t)) == trusted {
			return errors.New("clients still trust the former CA")
		}
		return nil
	})
	inst.StartTokenServer(t)
	scenario.AwaitUsable(t, inst, c)
	inst.AwaitTokens(t, credentials, true)
	if inst.Valid(t, realm.Name, before) || publishedKeys(t, inst, credentials) == keys {
		t.Error("The former signing keys are in use")
	}
}

// newShell returns a shell with kubectl and the plugin, in which commands apply to an installation.
func newShell(t *testing.T, inst *install.Installation) *console.Shell {
	t.Helper()
	shell := console.NewShell(t, t.TempDir(), "KUBECONFIG="+inst.Env.Kubeconfig, "PATH="+strings.Join([]string{
		inst.Env.BinDir, filepath.Dir(install.Binary(t, inst.Env, "kubectl-realmkeeper")), os.Getenv("PATH"),
	}, string(filepath.ListSeparator)))
	// The name of the records namespace begins with that of the system namespace.
	shell.Rewrite = func(command string) string { return strings.ReplaceAll(command, "realmkeeper-system", inst.Namespace) }
	return shell
}

// attack is what an attacker with the operator's credentials does. What the admission policies deny is done as an
// administrator, because a cluster can have had it before it had the policies.
type attack struct {
	inst *install.Installation
	// as has the operator's credentials.
	as    client.Client
	realm *v1beta1.Realm

	// key is a signing key of the realm, and secret a secret of a client. certificate is that of a CA.
	key                 signingkey.Key
	secret, certificate string
}

// changeTokenService adds to the objects of the token service.
func (a *attack) changeTokenService(t *testing.T) {
	t.Helper()
	servers := &appsv1.Deployment{ObjectMeta: key(a.inst.Namespace, config.TokenServiceName)}
	change(t, a.as, servers, `{"spec": {"template": {"spec": {"containers": [{"name": "token-server",
		"env": [{"name": "LD_PRELOAD", "value": "`+canary+`"}],
		"volumeMounts": [{"name": "records", "mountPath": "/`+canary+`"}],
		"lifecycle": {"postStart": {"exec": {"command": ["/`+canary+`"]}}}}]}}}}`)
	change(t, a.inst.Env.Client, servers, `{"spec": {"template": {"spec": {"containers": [{"name": "`+canary+`", "image": "`+canary+`"}],
		"initContainers": [{"name": "`+canary+`-init", "image": "`+canary+`"}]}}}}`)
	install.Eventually(t, "a Pod of the attacker", func() error {
		pods := &corev1.PodList{}
		if err := a.inst.Env.Client.List(t.Context(), pods, client.InNamespace(a.inst.Namespace)); err != nil {
			return err
		}
		for i := range pods.Items {
			if len(pods.Items[i].Spec.InitContainers) > 0 {
				return nil
			}
		}
		return fmt.Errorf("there is none among %d", len(pods.Items))
	})
	// Without its Deployment, its Pods run on.
	if err := a.as.Delete(t.Context(), servers, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	install.Eventually(t, "the Deployment to be deleted", func() error {
		return install.NotFound(a.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(servers), servers))
	})
	again := deployment(a.inst.Namespace, config.TokenServiceName, nil)
	again.Labels = map[string]string{canary: "true"}
	if err := a.as.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	change(t, a.as, &corev1.Service{ObjectMeta: key(a.inst.Namespace, config.TokenServiceName)},
		`{"spec": {"externalIPs": ["203.0.113.66"], "ports": [{"port": 666, "name": "`+canary+`"}]}}`)
	change(t, a.as, &corev1.ConfigMap{ObjectMeta: key(a.inst.Namespace, tokenservice.BundleName)}, `{"data": {"`+canary+`.crt": "`+canary+`"}}`)
	for _, obj := range []client.Object{
		&networkingv1.NetworkPolicy{ObjectMeta: key(a.inst.Namespace, config.TokenServiceName)},
		&policyv1.PodDisruptionBudget{ObjectMeta: key(a.inst.Namespace, config.TokenServiceName)},
	} {
		change(t, a.as, obj, `{"metadata": {"annotations": {"`+canary+`": "true"}}}`)
	}
	bundle := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: key("", tokenservice.TrustBundleName(a.inst.Namespace))}
	change(t, a.as, bundle, `{"metadata": {"annotations": {"`+canary+`": "true"}}}`)
}

// recordKeyAndSecret adds a key to the record of the realm, and a secret to that of a client.
func (a *attack) recordKeyAndSecret(t *testing.T, c *v1beta1.ApiClient) {
	t.Helper()
	var err error
	if a.key, err = signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	planted := a.key
	planted.Retire()
	planted.CreatedAt, planted.RetiredAt, planted.LongestLifetime = farFuture, farFuture, 100*365*24*time.Hour
	realm, err := record.ReadRealm(a.record(t, record.RealmRecordName(a.realm.UID)))
	if err != nil {
		t.Fatal(err)
	}
	realm.Keys = append(realm.Keys, planted)
	a.write(t)(recordsecret.ForRealm(a.inst.RecordsNamespace, a.realm, realm))

	if a.secret, err = clientsecret.Generate(rand.Reader); err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.Hash(a.secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body, err := record.ReadClient(a.record(t, record.ClientRecordName(a.realm.UID, c.EffectiveClientID())))
	if err != nil {
		t.Fatal(err)
	}
	forever := record.ClientSecret{ID: verifier.ID(), CreatedAt: time.Now(), Hash: verifier.String(), Role: record.RoleRetiring, Source: canary}
	body.Secrets = append(body.Secrets, forever)
	body.Restored = &record.Restored{BackupTime: farFuture, At: farFuture, Secrets: []record.ClientSecret{forever}}
	a.write(t)(recordsecret.ForClient(a.inst.RecordsNamespace, body))
}

// hideAndSquat takes the labels off the records, and creates others for clients and indexes that don't exist yet.
func (a *attack) hideAndSquat(t *testing.T, c *v1beta1.ApiClient, namespace string) {
	t.Helper()
	for _, name := range []string{record.RealmRecordName(a.realm.UID), record.ClientRecordName(a.realm.UID, c.EffectiveClientID())} {
		change(t, a.inst.Env.Client, &corev1.Secret{ObjectMeta: key(a.inst.RecordsNamespace, name)}, `{"metadata": {"labels": null}}`)
	}
	const owner types.UID = "00000000-0000-4000-8000-000000000000"
	other := record.Client{
		UID: owner, Namespace: namespace, Name: canary, RealmUID: a.realm.UID, RealmName: a.realm.Name,
		ClientID: namespace + ".future", Identity: owner, Audiences: []string{canary},
	}
	hide := func(desired *corev1ac.SecretApplyConfiguration, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		hidden := secret(a.inst.RecordsNamespace, *desired.Name, nil, func(s *corev1.Secret) { s.Data = desired.Data })
		a.inst.Create(t, hidden)
	}
	hide(recordsecret.ForClient(a.inst.RecordsNamespace, other))
	free := a.freeIndexes(t, 9)
	for _, index := range free[:8] {
		hide(recordsecret.ForIndex(a.inst.RecordsNamespace, record.Index{
			StatusIndex: record.StatusIndex{Index: index}, UID: owner, Namespace: namespace, Name: canary, RealmUID: a.realm.UID, Serial: math.MaxInt64, RetiredAt: farFuture,
		}))
	}
	visible := record.Index{StatusIndex: record.StatusIndex{Index: free[8]}, UID: owner, Namespace: namespace, Name: canary, RealmUID: a.realm.UID, Serial: 1}
	a.write(t)(recordsecret.ForIndex(a.inst.RecordsNamespace, visible))
	for _, obj := range []client.Object{
		configMap(a.inst.RecordsNamespace, canary), lease(a.inst.RecordsNamespace, canary), secret(namespace, canary, generated),
	} {
		if err := a.as.Create(t.Context(), obj); err != nil {
			t.Fatalf("Failed to create %T: %v", obj, err)
		}
	}
}

// freeIndexes returns the first indexes that no client holds. The clients of the test hold random ones.
func (a *attack) freeIndexes(t *testing.T, n int) (free []int) {
	t.Helper()
	for index := 0; len(free) < n; index++ {
		name := client.ObjectKey{Namespace: a.inst.RecordsNamespace, Name: record.IndexRecordName(a.realm.UID, index)}
		if err := a.inst.Env.Client.Get(t.Context(), name, &corev1.Secret{}); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		} else if err != nil {
			free = append(free, index)
		}
	}
	return free
}

// lieAboutTimes writes times that no clock reaches.
func (a *attack) lieAboutTimes(t *testing.T) {
	t.Helper()
	keys := fmt.Sprintf(`{"status": {"signingKeys": [{"keyID": %q, "algorithm": "ES256", "state": "Active", "creationTime": %q}]}}`, canary, farFuture.Format(time.RFC3339))
	status := client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: "another-manager"}}
	if err := a.as.Status().Patch(t.Context(), a.realm.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(keys)), &status); err != nil {
		t.Fatal(err)
	}
	held := &coordinationv1.Lease{}
	if err := a.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: a.inst.Namespace, Name: leader.LeaseName}, held); err != nil {
		t.Fatal(err)
	}
	held.Spec.HolderIdentity, held.Spec.LeaseDurationSeconds = new("restore/"+canary), new(int32(math.MaxInt32))
	held.Spec.RenewTime = &metav1.MicroTime{Time: farFuture}
	if err := a.as.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
}

// replaceCertificates makes clients trust a CA of the attacker.
func (a *attack) replaceCertificates(t *testing.T) {
	t.Helper()
	ca, err := pki.NewCA([]string{"*." + install.Domain}, time.Hour, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.certificate = strings.TrimSpace(string(ca.Certificate))
	for _, name := range []string{authority.SecretName, pki.ServingSecretName} {
		replaced := secret(a.inst.Namespace, name, nil)
		if err := a.as.Get(t.Context(), client.ObjectKeyFromObject(replaced), replaced); err != nil {
			t.Fatal(err)
		}
		replaced.Data[corev1.TLSCertKey], replaced.Data[corev1.TLSPrivateKeyKey] = ca.Certificate, ca.Key
		replaced.Annotations = map[string]string{canary: "true"}
		patched, err := json.Marshal(map[string]any{"data": replaced.Data, "metadata": map[string]any{"annotations": replaced.Annotations}})
		if err != nil {
			t.Fatal(err)
		}
		change(t, a.as, replaced, string(patched))
	}
}

// forge returns a token with the claims of another one, signed with the attacker's key.
func (a *attack) forge(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	encoded, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	var header map[string]any
	if err := json.Unmarshal(encoded, &header); err != nil {
		t.Fatal(err)
	}
	header["kid"] = a.key.ID
	if encoded, err = json.Marshal(header); err != nil {
		t.Fatal(err)
	}
	input := base64.RawURLEncoding.EncodeToString(encoded) + "." + parts[1]
	signature, err := a.key.Signer().Sign(nil, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// found returns the objects that contain something of the attacker. Events expire by themselves, and nothing
// depends on what the status of a Realm shows.
func (a *attack) found(t *testing.T) []string {
	t.Helper()
	objects := leak.ObjectsOf(t, a.inst)
	maps.DeleteFunc(objects, func(name, _ string) bool {
		return strings.HasPrefix(name, "Event ") || strings.HasPrefix(name, "Realm ")
	})
	return objects.Containing([]string{canary, a.key.ID, a.certificate})
}

// write returns a function that writes a record with the operator's credentials.
func (a *attack) write(t *testing.T) func(*corev1ac.SecretApplyConfiguration, error) {
	t.Helper()
	return func(desired *corev1ac.SecretApplyConfiguration, err error) {
		t.Helper()
		if err == nil {
			err = a.as.Apply(t.Context(), desired, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (a *attack) record(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	s := secret(a.inst.RecordsNamespace, name, nil)
	if err := a.as.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// harness runs the programs as a cluster would do for the objects, because no node runs Pods here: the operator
// while its Deployment has replicas, and a token server while that of the token servers exists.
type harness struct {
	inst    *install.Installation
	running bool // the operator
}

// deployment returns the Deployment of the operator, which the installation lacks.
func (h *harness) deployment() *appsv1.Deployment {
	d := deployment(h.inst.Namespace, operatorAccount, func(p *corev1.PodSpec) { p.ServiceAccountName = operatorAccount })
	labels := map[string]string{"app.kubernetes.io/name": "realmkeeper", "app.kubernetes.io/component": "operator"}
	d.Spec.Replicas, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = new(int32(1)), labels, labels
	return d
}

func (h *harness) follow(t *testing.T) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: key(h.inst.Namespace, operatorAccount)}
	if err := h.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	switch replicas := *d.Spec.Replicas; {
	case replicas > 0 && !h.running:
		h.inst.StartOperator(t, "")
		h.running = true
	case replicas == 0 && h.running:
		h.inst.StopOperator(t)
		h.running = false
	}
	err := h.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: h.inst.Namespace, Name: config.TokenServiceName}, &appsv1.Deployment{})
	if install.NotFound(err) == nil {
		h.inst.StopTokenServers(t)
	}
}

// awaitTokenServers starts a token server when the operator has created the Deployment again.
func (h *harness) awaitTokenServers(t *testing.T) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: key(h.inst.Namespace, config.TokenServiceName)}
	install.Eventually(t, "the Deployment of the token servers", func() error {
		return h.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d)
	})
	if len(h.inst.Servers()) > 0 {
		t.Fatal("The token server of the attacker still runs")
	}
	var names []string
	for i := range d.Spec.Template.Spec.Containers {
		names = append(names, d.Spec.Template.Spec.Containers[i].Name)
	}
	if !slices.Equal(names, []string{config.TokenServerContainer}) {
		t.Errorf("The Deployment has the containers %q", names)
	}
	h.inst.StartTokenServer(t)
}

// publishedKeys returns the JWKS of a client's realm.
func publishedKeys(t *testing.T, inst *install.Installation, credentials *corev1.Secret) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, string(credentials.Data[v1beta1.SecretKeyJWKSURL]), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := inst.Servers()[0].Client(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", response.Status, err)
	}
	return string(body)
}
