package clients_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

var errDamaged = errors.New("the record is damaged")

// The operator can derive the whole record of a subject, so it restores a deleted or damaged one. The
// workload then gets tokens without a client ID again.
func testSubjectRecordIsRestored(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	const subject = "repo:acme/restored"
	ci := issuer.NewStatic(t, "ci", "https://ci.example.com")
	realm := install.Realm("subjects", func(r *v1alpha1.Realm) { r.Spec.TrustedIssuers = []v1alpha1.TrustedIssuer{ci.Trusted(t)} })
	c := install.ApiClient(cluster.Namespace(t), "workload", realm.Name, func(c *v1alpha1.ApiClient) {
		c.Spec.FederatedIdentities = []v1alpha1.FederatedIdentity{{Issuer: "ci", Subject: subject}}
	})
	inst.Create(t, realm, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	token := ci.Token(t, strings.TrimSuffix(c.Status.TokenEndpoint, oauth.TokenPath), subject, nil)
	stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: inst.RecordsNamespace, Name: record.SubjectSecretName(realm.UID, ci.URL(), subject),
	}}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		t.Fatal(err)
	}
	good := stored.DeepCopy()
	for name, damage := range map[string]func(){
		"corrupted": func() {
			install.Change(t, inst, stored, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("{}") })
		},
		"relabeled": func() { install.Change(t, inst, stored, func(s *corev1.Secret) { s.Labels = nil }) },
		"deleted":   func() { inst.Delete(t, good.DeepCopy()) },
	} {
		damage()
		install.Eventually(t, "the "+name+" record to be restored", func() error {
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				return err
			}
			if !bytes.Equal(stored.Data[record.DataKey], good.Data[record.DataKey]) || !cmp.Equal(stored.Labels, good.Labels) {
				return errDamaged
			}
			return nil
		})
		for _, s := range inst.Servers() {
			install.Eventually(t, s.Name+" to know the holder after its record was "+name, func() error {
				response, err := install.RequestTokenByGrant(t, s, s.Client(t), c.Status.TokenEndpoint, "", token)
				if err != nil || response.AccessToken == "" {
					return fmt.Errorf("the response is %+v, %w", response, err)
				}
				return nil
			})
		}
	}
}
