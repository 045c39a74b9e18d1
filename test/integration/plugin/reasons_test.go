package plugin_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/remedy"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
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
	narrow := func(r *v1alpha1.Realm) {
		r.Spec.Scopes = []string{"read", "o'reilly"}
		r.Spec.Grants = []v1alpha1.Grant{{Name: "other", Namespaces: v1alpha1.GrantedNamespaces{Names: []string{team}}}}
	}
	elsewhere := install.Realm("elsewhere", func(r *v1alpha1.Realm) {
		r.Spec.Grants = []v1alpha1.Grant{{Name: "other", Namespaces: v1alpha1.GrantedNamespaces{Names: []string{"default"}}}}
	})
	inst.Create(t, install.Realm("without-scopes", narrow), install.Realm("without-client-id", narrow), elsewhere,
		secret("unlabelled", nil, "0123456789abcdef"),
		secret("short", map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}, "short"),
		secret("unusable", map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}, "0123456789abcdef\n"),
		secret("keyless", map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}, ""))
	past := metav1.NewTime(time.Now().Add(-time.Hour))
	// Names have 12 characters at most: the lines of other tests that list all clients fit into 80 columns.
	for name, test := range map[string]struct {
		reason v1alpha1.ConditionReason
		change func(*v1alpha1.ApiClient)
	}{
		"fix-suspend":  {v1alpha1.ReasonSuspended, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true }},
		"fix-expired":  {v1alpha1.ReasonExpired, func(c *v1alpha1.ApiClient) { c.Spec.ExpiresAt = &past }},
		"fix-lifetime": {v1alpha1.ReasonLifetimeExceedsRealm, func(c *v1alpha1.ApiClient) { c.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 2 * time.Hour} }},
		"fix-account": {v1alpha1.ReasonServiceAccountNotFound, func(c *v1alpha1.ApiClient) {
			c.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: "fixed"}}
		}},
		"fix-label":    {v1alpha1.ReasonSecretNotLabelled, providedBy("unlabelled")},
		"fix-short":    {v1alpha1.ReasonSecretTooShort, providedBy("short")},
		"fix-unusable": {v1alpha1.ReasonSecretNotUsable, providedBy("unusable")},
		"fix-key":      {v1alpha1.ReasonSecretNotFound, providedBy("keyless")},
		"fix-secret":   {v1alpha1.ReasonSecretNotFound, providedBy("missing-secret")},
		"fix-grant": {v1alpha1.ReasonNotGranted, func(c *v1alpha1.ApiClient) {
			c.Spec.RealmRef.Name, c.Spec.Scopes = "without-scopes", []string{"read", "o'reilly"}
		}},
		"fix-id": {v1alpha1.ReasonNotGranted, func(c *v1alpha1.ApiClient) {
			c.Spec.RealmRef.Name, c.Spec.Scopes, c.Spec.ClientID = "without-client-id", nil, "mine"
		}},
		"fix-ns": {v1alpha1.ReasonNamespaceNotAllowed, func(c *v1alpha1.ApiClient) { c.Spec.RealmRef.Name, c.Spec.Scopes = "elsewhere", nil }},
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
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			sh.succeeds(t, "kubectl realmkeeper explain apiclient/"+name+" -n "+team)
		})
	}
}

func secret(name string, labels map[string]string, value string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Labels: labels}}
	if value != "" {
		s.Data = map[string][]byte{"client_secret": []byte(value)}
	}
	return s
}

func providedBy(name string) func(*v1alpha1.ApiClient) {
	return func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{SecretRef: v1alpha1.SecretKeyReference{Name: name}}}
	}
}

// apiReasons returns every ConditionReason that the API defines.
func apiReasons(t *testing.T) []v1alpha1.ConditionReason {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api", "v1alpha1", "condition_types.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []v1alpha1.ConditionReason
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, _ := spec.Type.(*ast.Ident); kind == nil || kind.Name != "ConditionReason" {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("The value of %s is no literal", spec.Names[0])
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, v1alpha1.ConditionReason(value))
		return true
	})
	return found
}

// conditionOf returns the type and status of a condition with the given reason. Most reasons are
// reasons of the Ready condition.
func conditionOf(reason v1alpha1.ConditionReason) (v1alpha1.ConditionType, metav1.ConditionStatus) {
	switch reason {
	case v1alpha1.ReasonReady:
		return v1alpha1.ConditionReady, metav1.ConditionTrue
	case v1alpha1.ReasonProgressing:
		return v1alpha1.ConditionReady, metav1.ConditionUnknown
	case v1alpha1.ReasonImportedHash:
		return v1alpha1.ConditionWeakHash, metav1.ConditionTrue
	case v1alpha1.ReasonOldSecretUsed:
		return v1alpha1.ConditionOldSecretInUse, metav1.ConditionTrue
	case v1alpha1.ReasonUsageIncomplete:
		return v1alpha1.ConditionOldSecretInUse, metav1.ConditionUnknown
	case v1alpha1.ReasonTrustedIssuerNotSupported, v1alpha1.ReasonIssuerNotResolved:
		return v1alpha1.ConditionIssuersResolved, metav1.ConditionFalse
	}
	return v1alpha1.ConditionReady, metav1.ConditionFalse
}

// explain names the cause of every reason that needs an explanation, and the commands that it suggests
// work. The operator is stopped, and the test writes the status instead.
func testEveryReason(t *testing.T, inst *install.Installation, sh *shell) {
	billing, acme := newClient("billing"), install.Realm("acme")
	for _, obj := range []client.Object{billing, acme} {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
	}
	for _, reason := range apiReasons(t) {
		if reason == v1alpha1.ReasonAccepted || reason == v1alpha1.ReasonIssuersResolved {
			continue // These reasons occur only in conditions that explain doesn't show.
		}
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			name := "reason-" + strings.ToLower(string(reason))
			c := newClient(name, func(c *v1alpha1.ApiClient) {
				c.Spec.RealmRef.Name = name
				switch {
				case strings.HasPrefix(string(reason), "Secret") && reason != v1alpha1.ReasonSecretConflict:
					providedBy(name)(c)
				case reason == v1alpha1.ReasonServiceAccountNotFound:
					c.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: name}}
				}
			})
			// The Secret exists, unless the reason is that it is missing.
			if reason != v1alpha1.ReasonSecretNotFound {
				inst.Create(t, secret(name, nil, "x"))
			}
			r, ok := remedy.ForClient(c, func() *v1alpha1.Realm {
				return &v1alpha1.Realm{Spec: acme.Spec, Status: v1alpha1.RealmStatus{Issuer: "https://acme.test"}}
			}, reason)
			if !ok {
				explainRealm(t, inst, sh, reason)
				return
			}
			if reason == v1alpha1.ReasonReady {
				c = billing // This client has working credentials.
			} else {
				// Each client has its own realm, because a suggested command can add a grant to it.
				realm := install.Realm(name, func(r *v1alpha1.Realm) { r.Spec.Scopes, r.Spec.Grants = acme.Spec.Scopes, acme.Spec.Grants })
				inst.Create(t, realm, c)
				setReason(t, inst, realm, &realm.Status.Conditions, v1alpha1.ReasonReady)
				setReason(t, inst, c, &c.Status.Conditions, reason)
			}
			wantExplanation(t, sh, "apiclient/"+c.Name+" -n "+team, reason, r.Cause)
		})
	}
}

// explainRealm checks a reason that only Realms have.
func explainRealm(t *testing.T, inst *install.Installation, sh *shell, reason v1alpha1.ConditionReason) {
	t.Helper()
	realm := install.Realm("reason-" + strings.ToLower(string(reason)))
	inst.Create(t, realm)
	setReason(t, inst, realm, &realm.Status.Conditions, reason)
	r, ok := remedy.ForRealm(realm, reason)
	if !ok {
		t.Fatalf("Reason %s has no remedy", reason)
	}
	wantExplanation(t, sh, "realm/"+realm.Name, reason, r.Cause)
}

// setReason writes the status of an object as the operator does.
func setReason(t *testing.T, inst *install.Installation, obj client.Object, conditions *[]metav1.Condition, reason v1alpha1.ConditionReason) {
	t.Helper()
	kind, status := conditionOf(reason)
	set := func(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason) {
		*conditions = append(*conditions, metav1.Condition{
			Type: string(kind), Status: status, Reason: string(reason), Message: "The message of " + string(reason) + ".",
			ObservedGeneration: obj.GetGeneration(), LastTransitionTime: metav1.Now(),
		})
	}
	set(kind, status, reason)
	if kind != v1alpha1.ConditionReady {
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	if err := inst.Env.Client.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

// wantExplanation fails the test unless explain names the reason and its cause, has the right exit
// code, and suggests commands that work.
func wantExplanation(t *testing.T, sh *shell, object string, reason v1alpha1.ConditionReason, cause string) {
	t.Helper()
	got := sh.run(t, "kubectl realmkeeper explain "+object)
	kind, status := conditionOf(reason)
	wantCode := 1
	if kind != v1alpha1.ConditionReady || status == metav1.ConditionTrue {
		wantCode = 0
	}
	text := strings.Join(strings.Fields(got.Stdout), " ")
	if got.Code != wantCode || !strings.Contains(text, cause) || wantCode == 1 && !strings.Contains(text, "not Ready: "+string(reason)) {
		t.Errorf("exit code %d, want %d and the cause %q:\n%s%s", got.Code, wantCode, cause, got.Stdout, got.Stderr)
	}
	output := got.Stdout
	if i := strings.Index(output, "\n"+string(kind)+": "+string(reason)); i >= 0 {
		output = output[i:] // of a warning
	}
	commands := commandsIn(output)
	if len(commands) == 0 {
		t.Errorf("explain suggests no command:\n%s", got.Stdout)
	}
	for _, command := range commands {
		sh.succeeds(t, command)
	}
}
