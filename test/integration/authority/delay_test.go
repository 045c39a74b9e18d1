package authority_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A credentials Secret that the operator can't write delays the move to the deadline and no longer. The
// operator names it, and its workloads can connect nevertheless. A Secret that a finalizer keeps while it
// is being deleted doesn't delay the move.
func TestUnwritableSecretDelaysMove(t *testing.T) {
	t.Parallel()
	l := medium
	l.overlap *= 2 // On a busy machine, the operator needs time to write the other Secrets before the deadline.
	s := newSite(t, l)
	s.createCA(t, s.newCA(t, s.renewAfter(5*time.Minute)).Pair)
	clients := s.start(t, "", 1, "denied", "held", "normal")
	s.denyWrites(t, "denied")
	held := s.CredentialsSecret(t, clients[1])
	install.Change(t, s.Installation, held, func(secret *corev1.Secret) { secret.Finalizers = []string{"test.realmkeeper.dev/hold"} })
	s.Delete(t, held)
	t.Cleanup(func() { s.release(t, held) })
	load := s.connect(t, s.following(t, clients[0], 0))
	s.renewNow(t)

	old, next := s.awaitPublished(t)
	published := s.publishedAt(t)
	at, _ := s.awaitMove(t, old)
	if deadline := published.Add(2 * s.overlap); at.Before(deadline) {
		t.Errorf("the serving certificate moved %s after the publication, want the deadline after %s", at.Sub(published), deadline.Sub(published))
	}
	s.awaitServed(t, next)
	s.wantNamed(t, s.team+"/denied", s.team+"/normal", s.team+"/held")
	load.stop(t, "workloads of the client with the unwritable Secret")
}

// denyWrites denies the operator all writes of a Secret.
func (s *site) denyWrites(t *testing.T, name string) {
	t.Helper()
	operator := "system:serviceaccount:" + s.Namespace + ":realmkeeper-operator"
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "deny." + s.Namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name:       "secret",
				Expression: fmt.Sprintf("request.userInfo.username == %q && request.namespace == %q && request.name == %q", operator, s.team, name),
			}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no changes"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	s.Create(t, policy, binding)
	as := rest.CopyConfig(s.Env.Config)
	as.Impersonate.UserName, as.WarningHandler = operator, rest.NoWarnings{}
	c, err := client.New(as, client.Options{Scheme: s.Env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	install.Eventually(t, "the policy to deny changes of Secret "+name, func() error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: name}}
		change := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`))
		if err := client.NewDryRunClient(c).Patch(t.Context(), secret, change); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("the change is not denied: %w", err)
		}
		return nil
	})
}

// release removes the finalizers of an object, so that it is deleted.
func (s *site) release(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own has ended
	defer cancel()
	none := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.Env.Client.Patch(ctx, secret, none); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// publishedAt returns the time at which the next CA was published.
func (s *site) publishedAt(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, string(s.caSecret(t).Data["next-published-at"]))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// wantNamed checks that the operator's log and an Event in the system namespace name only the first of
// the clients, and that no Realm does, because several tenants can read it.
func (s *site) wantNamed(t *testing.T, late string, others ...string) {
	t.Helper()
	var lines []string
	install.Eventually(t, "the operator's log to name "+late, func() error {
		lines = nil
		for line := range strings.Lines(string(s.OperatorLog(t))) {
			if strings.Contains(line, `"apiClients"`) && strings.Contains(line, late) {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			return fmt.Errorf("no line does")
		}
		return nil
	})
	install.Eventually(t, "an Event to name "+late, func() error {
		list := &eventsv1.EventList{}
		if err := s.Env.Client.List(t.Context(), list, client.InNamespace(s.Namespace)); err != nil {
			return err
		}
		for _, event := range list.Items {
			if strings.Contains(event.Note, late) {
				lines = append(lines, event.Note)
				return nil
			}
		}
		return fmt.Errorf("none of %d does", len(list.Items))
	})
	realm := &v1alpha1.Realm{}
	install.Eventually(t, "the condition CARenewal to count one Secret", func() error {
		if err := s.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(s.realm), realm); err != nil {
			return err
		}
		renewal := meta.FindStatusCondition(realm.Status.Conditions, string(v1alpha1.ConditionCARenewal))
		if renewal == nil || renewal.Reason != string(v1alpha1.ReasonCredentialsOutdated) || !strings.HasPrefix(renewal.Message, "1 credentials Secret") {
			return fmt.Errorf("it is %+v", renewal)
		}
		return nil
	})
	install.Eventually(t, "the metric to count one Secret", func() error {
		if count := s.OperatorMetric(t, "realmkeeper_outdated_credentials_secrets"); count != "1" {
			return fmt.Errorf("it counts %q", count)
		}
		return nil
	})
	for _, condition := range realm.Status.Conditions {
		if strings.Contains(condition.Message, s.team) {
			t.Errorf("the condition %s of the Realm names a client: %s", condition.Type, condition.Message)
		}
	}
	for _, line := range lines {
		for _, other := range others {
			if strings.Contains(line, other) {
				t.Errorf("%s is named although its Secret was written: %s", other, line)
			}
		}
	}
}
