package plugin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

var errNotListed = errors.New("the credential is not listed")

// commandsIn returns the commands that explain suggests.
func commandsIn(output string) []string {
	var commands []string
	_, next, _ := strings.Cut(output, "  Next\n")
	for line := range strings.Lines(next) {
		command, ok := strings.CutPrefix(line, "    kubectl ")
		if !ok {
			break
		}
		commands = append(commands, "kubectl "+strings.TrimSuffix(command, "\n"))
	}
	return commands
}

// If nothing else is wrong, the commands that explain suggests make the client Ready.
func testCommandsFixTheCause(t *testing.T, inst *install.Installation, sh *shell) {
	// Commands change the realms, so no other test uses them.
	narrow := func(r *v1beta1.Realm) {
		r.Spec.Scopes = []string{"read", "o'reilly"}
		r.Spec.Grants = []v1beta1.Grant{{Name: "other", Namespaces: v1beta1.GrantedNamespaces{Names: []string{team}}, Audiences: v1beta1.GrantedAudiences{"*"}}}
	}
	elsewhere := install.Realm("elsewhere", func(r *v1beta1.Realm) {
		r.Spec.Grants = []v1beta1.Grant{{Name: "other", Namespaces: v1beta1.GrantedNamespaces{Names: []string{"default"}}, Audiences: v1beta1.GrantedAudiences{"*"}}}
	})
	inst.Create(t, install.Realm("without-scopes", narrow), elsewhere,
		secret("unlabeled", nil, "0123456789abcdef"),
		secret("unusable", map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}, "0123456789abcdef\n"))
	// Names have 12 characters at most: the lines of other tests that list all clients fit into 80 columns.
	for name, test := range map[string]struct {
		reason v1beta1.ConditionReason
		change func(*v1beta1.ApiClient)
	}{
		"fix-lifetime": {v1beta1.ReasonLifetimeExceedsRealm, func(c *v1beta1.ApiClient) { c.Spec.TokenLifetime = &v1beta1.Duration{Duration: 2 * time.Hour} }},
		"fix-account": {v1beta1.ReasonServiceAccountNotFound, func(c *v1beta1.ApiClient) {
			c.Spec.Identities = install.ServiceAccounts("fixed")
		}},
		"fix-label":    {v1beta1.ReasonSecretNotLabeled, providedBy("unlabeled")},
		"fix-unusable": {v1beta1.ReasonSecretNotUsable, providedBy("unusable")},
		"fix-secret":   {v1beta1.ReasonSecretNotFound, providedBy("missing-secret")},
		"fix-grant": {v1beta1.ReasonNotGranted, func(c *v1beta1.ApiClient) {
			c.Spec.RealmRef.Name, c.Spec.Scopes = "without-scopes", []string{"read", "o'reilly"}
		}},
		"fix-ns": {v1beta1.ReasonNamespaceNotAllowed, func(c *v1beta1.ApiClient) { c.Spec.RealmRef.Name, c.Spec.Scopes = "elsewhere", nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(name, test.change)
			inst.Create(t, c)
			inst.AwaitReady(t, c, metav1.ConditionFalse, test.reason)
			got := sh.run(t, "kubectl realmkeeper explain apiclient/"+name+" -n "+team)
			commands := commandsIn(got.Stdout)
			for _, command := range commands {
				sh.succeeds(t, command)
			}
			if len(commands) == 0 {
				t.Fatalf("explain suggests no command: %+v", got)
			}
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
			sh.succeeds(t, "kubectl realmkeeper explain apiclient/"+name+" -n "+team)
		})
	}
}

func secret(name string, labels map[string]string, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Labels: labels},
		Data:       map[string][]byte{"client_secret": []byte(value)},
	}
}

func providedBy(name string) func(*v1beta1.ApiClient) {
	return func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{SecretRef: v1beta1.SecretKeyReference{Name: name}}}
	}
}
