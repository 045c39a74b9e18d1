package localissuer_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/tools/localissuer"
)

// A user pastes the printed command into a shell.
func TestReportPrintsExactCommand(t *testing.T) {
	for _, text := range hostile.Texts {
		text = hostile.Argument(text)
		c := &v1beta1.ApiClient{
			ObjectMeta: metav1.ObjectMeta{Namespace: text, Name: text},
			Spec: v1beta1.ApiClientSpec{Secret: &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{
				Keys: map[string]v1beta1.SecretDataKey{"client_id": v1beta1.SecretDataKey(text)},
			}}},
			Status: v1beta1.ApiClientStatus{Conditions: localissuer.Conditions(metav1.ConditionTrue, text), ClientID: text, SecretName: text, TokenEndpoint: text},
		}
		realm := &v1beta1.Realm{
			ObjectMeta: metav1.ObjectMeta{Name: text},
			Status:     v1beta1.RealmStatus{Conditions: localissuer.Conditions(metav1.ConditionTrue, text), Issuer: text, TokenEndpoint: text, JWKSURI: text},
		}
		var out bytes.Buffer
		localissuer.Report(&out, text, c, realm)
		hostile.CheckPrintable(t, out.String())
		_, command, ok := strings.Cut(out.String(), "Get a token:\n")
		if !ok {
			t.Fatalf("Output has no command:\n%s", &out)
		}
		command, _, _ = strings.Cut(command, "\n\n")
		want := [][]string{{
			"curl", "-sS", "--cacert", filepath.Join(text, "ca.crt"), "-d", "grant_type=client_credentials",
			"--data-urlencode", "client_id@" + filepath.Join(text, text, text, text),
			"--data-urlencode", "client_secret@" + filepath.Join(text, text, text, "client_secret"),
			text,
		}}
		if diff := cmp.Diff(want, hostile.Run(t, command, "curl")); diff != "" {
			t.Errorf("Arguments with %q (-want +got):\n%s", text, diff)
		}

		lines := strings.Count(out.String(), "\n")
		out.Reset()
		c.Status.SecretName = ""
		localissuer.Report(&out, text, c, realm)
		c.Status.Conditions, realm.Status.Conditions = localissuer.Conditions(metav1.ConditionFalse, text), localissuer.Conditions(metav1.ConditionFalse, text)
		localissuer.Report(&out, text, c, realm)
		hostile.CheckPrintable(t, out.String())
		if all := lines + strings.Count(out.String(), "\n"); all != 81 {
			t.Errorf("With %q, the reports have %d lines, want 81:\n%s", text, all, &out)
		}
	}
}

// The files can come from other users.
func TestErrorsAndDirectoriesArePrintable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, realm+billing)
	f.options.CredentialsDir = t.TempDir() + "/it's \x1b[2J\u202e$(>canary)"
	f.start()
	f.write("\x1b]0;\u009b.yaml", "apiVersion: auth.realmkeeper.dev/v1beta1\nkind: Realm\nmetadata: {name: \"\\e[2J\\u202e\"}\nspec: {\"\\e[3J\": \"\\u009b\"}\n")
	f.await("Error in")
	f.write("objects.yaml", realm)
	f.await("was removed")
	f.end()
	hostile.CheckPrintable(t, f.out.String())
	hostile.CheckPrintable(t, f.errOut.String())
}
