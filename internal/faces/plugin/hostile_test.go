package plugin_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin"
)

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	encoded := testkit.Value(json.Marshal(value))(t)
	return string(encoded)
}

// A user who can change the credentials Secret chooses the server that the plugin contacts, and so
// everything in its response.
func TestTokenPrintsHostileResponse(t *testing.T) {
	for _, text := range hostile.Texts {
		header := encode(mustJSON(t, map[string]string{"alg": "ES256", "kid": text}))
		claims := encode(mustJSON(t, map[string]any{text: []string{text}, "sub": text}))
		server := endpoint(t, response{http.StatusOK, mustJSON(t, map[string]any{
			"access_token": header + "." + claims + "." + encode("signature"), "token_type": text, "scope": text, "expires_in": 300,
		})})
		code, stdout, stderr := run(t, "token", "--from-directory", mounted(t, server, nil))
		hostile.CheckPrintable(t, stdout)
		if code != 0 || stderr != "" || strings.Count(stdout, "\n") != 10 {
			t.Errorf("With %q: exit code %d, stderr %q, %d lines; want 0 and 10 lines:\n%s", text, code, stderr, strings.Count(stdout, "\n"), stdout)
		}
	}
}

func TestTokenPrintsHostileError(t *testing.T) {
	for _, text := range hostile.Texts {
		body := mustJSON(t, map[string]string{"error": text, "error_description": text})
		server := endpoint(t, response{http.StatusBadRequest, body})
		for name, dir := range map[string]string{
			"response": mounted(t, server, nil),
			"URL":      mounted(t, server, map[string]string{"cluster_token_url": text}),
		} {
			code, stdout, stderr := run(t, "token", "--from-directory", dir)
			hostile.CheckPrintable(t, stderr)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("With %s %q: exit code %d, stdout %q, stderr %q; want 1 and one line", name, text, code, stdout, stderr)
			}
		}
	}
}

// A program reads the token of --output=token, but a user can also see it.
func TestTokenOutputTokenRejectsOtherText(t *testing.T) {
	for _, text := range append(hostile.Texts, "=", "a=b", "a b", "ä") {
		server := endpoint(t, response{http.StatusOK, mustJSON(t, map[string]string{"access_token": accessToken + "%" + text})})
		code, stdout, stderr := run(t, "token", "--from-directory", mounted(t, server, nil), "-o", "token")
		hostile.CheckPrintable(t, stderr)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "'%'") || !strings.Contains(stderr, "RFC 6750") || !strings.Contains(stderr, server.URL) {
			t.Errorf("With %q: exit code %d, stdout %q, stderr %q; want an error with the character", text, code, stdout, stderr)
		}
	}
	for _, token := range []string{"ABCxyz019-._~+/", "YWI=", "YQ=="} {
		server := endpoint(t, response{http.StatusOK, mustJSON(t, map[string]string{"access_token": token})})
		if code, stdout, stderr := run(t, "token", "--from-directory", mounted(t, server, nil), "-o", "token"); code != 0 || stdout != token+"\n" {
			t.Errorf("Token %s: exit code %d, stdout %q, stderr %q", token, code, stdout, stderr)
		}
	}
}

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
				"client":   func(out io.Writer) error { return plugin.PrintExplanation(out, format, c, realm, event) },
				"realm":    func(out io.Writer) error { return plugin.PrintExplanation(out, format, nil, realm, event) },
				"problems": func(out io.Writer) error { return plugin.PrintProblems(out, format, c, realm) },
				"instance": func(out io.Writer) error { return plugin.PrintInstance(out, format, hostileInstance(valid)) },
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
		for _, p := range plugin.ProblemsOf([]*v1beta1.ApiClient{c}, []*v1beta1.Realm{realm}) {
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
