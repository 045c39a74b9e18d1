package inspect_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/inspect"
)

// hostileObjects returns an ApiClient, a Realm, and an Event with the text in every field.
func hostileObjects(text string) (*v1beta1.ApiClient, *v1beta1.Realm, corev1.Event) {
	conditions := []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: text, Message: text},
		{Type: "Accepted", Status: metav1.ConditionFalse, Reason: "NotGranted", Message: text},
	}
	c := &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: text, Name: text},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: text}, ClientID: text, Description: text, Scopes: []string{text}, Audiences: []string{text},
			Introspection: v1beta1.Introspection{Audiences: []string{text}},
			Identities:    []v1beta1.Identity{{Name: text, Issuer: text, Subject: text, MatchClaims: v1beta1.ClaimMatches{{Name: text, Value: text}}}},
		},
		Status: v1beta1.ApiClientStatus{Conditions: conditions, ClientID: text, TokenEndpoint: text, SecretName: text},
	}
	realm := &v1beta1.Realm{
		ObjectMeta: metav1.ObjectMeta{Name: text},
		Spec:       v1beta1.RealmSpec{Scopes: []string{text}, Audiences: []string{text}, Grants: []v1beta1.Grant{{Name: text, Scopes: []string{text}}}},
		Status:     v1beta1.RealmStatus{Conditions: conditions, Issuer: text, TokenEndpoint: text, JWKSURI: text},
	}
	labels := v1beta1.ExchangeNamespaces{Selector: &v1beta1.ExchangeNamespaceSelector{MatchLabels: v1beta1.Labels{text: v1beta1.LabelValue(text)}}}
	clients := v1beta1.ExchangeClients{Namespaces: labels, ClientIDs: []string{text, "other"}}
	issuer := &v1beta1.ExchangeIssuer{Name: text, MatchClaims: v1beta1.ClaimMatches{{Name: text, Value: text}}}
	for _, subjects := range []v1beta1.ExchangeSubjects{{Clients: &clients, Audiences: []string{text}, Scopes: []string{text}}, {Issuer: issuer}} {
		realm.Spec.Exchanges = append(realm.Spec.Exchanges, v1beta1.Exchange{Name: text, Actors: clients, Subjects: subjects, Audiences: []string{text}, Scopes: []string{text, text + text}})
	}
	return c, realm, corev1.Event{Reason: text, Message: text}
}

func TestReportsOfHostileObjects(t *testing.T) {
	var commands []string
	var want [][]string
	for _, text := range hostile.Texts {
		valid := strings.ToValidUTF8(text, "\ufffd")
		c, realm, event := hostileObjects(valid)
		for _, format := range []string{"", "json", "yaml"} {
			for name, printReport := range map[string]func(io.Writer) error{
				"client":   func(out io.Writer) error { return inspect.PrintExplanation(out, format, c, realm, event) },
				"realm":    func(out io.Writer) error { return inspect.PrintExplanation(out, format, nil, realm, event) },
				"problems": func(out io.Writer) error { return inspect.PrintProblems(out, format, c, realm) },
				"instance": func(out io.Writer) error { return inspect.PrintInstance(out, format, hostileInstance(valid)) },
			} {
				var out bytes.Buffer
				testkit.Do(t, printReport(&out))
				hostile.CheckPrintable(t, out.String())
				if format == "" || name == "problems" || name == "instance" {
					continue
				}
				var got struct{ Events []struct{ Message string } }
				decode := map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) }}[format]
				if err := decode(out.Bytes(), &got); err != nil || len(got.Events) != 1 || got.Events[0].Message != valid {
					t.Errorf("Report of %s as %s: %v, %+v; want an Event with %q", name, format, err, got, valid)
				}
			}
		}
		for _, p := range inspect.ProblemsOf([]*v1beta1.ApiClient{c}, []*v1beta1.Realm{realm}) {
			text := hostile.Argument(valid)
			commands = append(commands, p.Commands...)
			if p.Kind == "ApiClient" {
				want = append(want, []string{"kubectl", "realmkeeper", "explain", "apiclient/" + text, "-n", text})
			} else {
				want = append(want, []string{"kubectl", "realmkeeper", "explain", "realm/" + text})
			}
		}
	}
	testkit.Diff(t, "Arguments", want, hostile.Run(t, strings.Join(commands, "\n"), "kubectl"))
}

func hostileInstance(text string) *v1beta1.Instance {
	i := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}}
	i.Status = v1beta1.InstanceStatus{
		Version: text, ServiceURL: text, SystemNamespace: text, KeyEncryption: &v1beta1.KeyEncryptionStatus{Mode: v1beta1.KeyEncryptionEncrypt, KeyID: text},
		Conditions:   []metav1.Condition{{Type: string(v1beta1.ConditionReady), Status: metav1.ConditionFalse, Reason: text, Message: text}},
		TokenServers: []v1beta1.TokenServerStatus{{Name: text, Version: text, State: v1beta1.TokenServerStale, Message: text}},
	}
	return i
}
