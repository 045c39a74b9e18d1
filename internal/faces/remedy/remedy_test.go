package remedy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/faces/remedy"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
)

func billing() *v1beta1.ApiClient {
	return &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing"},
		Spec:       v1beta1.ApiClientSpec{RealmRef: v1beta1.RealmReference{Name: "acme"}},
	}
}

func acme() *v1beta1.Realm {
	return &v1beta1.Realm{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "0c418334-4051-4c52-ab24-e8cd01ceba00"},
		Spec:       v1beta1.RealmSpec{Scopes: []string{"read", "o'r"}, Audiences: []string{"a", "b"}},
		Status:     v1beta1.RealmStatus{Issuer: "https://api.example.com/acme"},
	}
}

func realmkeeper() *v1beta1.Instance {
	return &v1beta1.Instance{
		ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}, Status: v1beta1.InstanceStatus{SystemNamespace: "realmkeeper-system"},
	}
}

// A reason that is added to the API needs a remedy.
func TestEveryReasonHasRemedy(t *testing.T) {
	for _, reason := range v1beta1.Reasons() {
		ofClient, client := remedy.ForClient(billing(), acme, reason)
		ofRealm, realm := remedy.ForRealm(acme(), reason)
		ofInstance, instance := remedy.ForInstance(realmkeeper(), reason)
		if !client && !realm && !instance {
			t.Errorf("Reason %s has no remedy", reason)
		}
		if client {
			check(t, reason, ofClient)
		}
		if realm {
			check(t, reason, ofRealm)
		}
		if instance {
			check(t, reason, ofInstance)
		}
	}
}

// done contains the reasons that require no action.
var done = map[v1beta1.ConditionReason]bool{
	v1beta1.ReasonAccepted: true, v1beta1.ReasonReady: true, v1beta1.ReasonIssuersResolved: true, v1beta1.ReasonExchangesResolved: true,
	v1beta1.ReasonKeysEncrypted: true, v1beta1.ReasonCertificatesIssued: true, v1beta1.ReasonKMSConnected: true,
}

// check fails the test if a part of the remedy is missing or malformed.
func check(t *testing.T, reason v1beta1.ConditionReason, r remedy.Remedy) {
	t.Helper()
	if !strings.HasSuffix(r.Cause, ".") || len(r.Commands) == 0 || (r.Action == "") != done[reason] {
		t.Errorf("Remedy of %s is incomplete: %+v", reason, r)
	}
	for _, command := range r.Commands {
		if !strings.HasPrefix(command, "kubectl ") || strings.ContainsAny(command, "<>\n") {
			t.Errorf("Remedy of %s has the command %q, want a complete kubectl command", reason, command)
		}
	}
}

func TestUnknownReasonHasNoRemedy(t *testing.T) {
	if r, ok := remedy.ForClient(billing(), acme, "FromNewerOperator"); ok {
		t.Errorf("ForClient() = %+v, want none", r)
	}
	// A reason of ApiClients does not occur on a Realm.
	if r, ok := remedy.ForRealm(acme(), v1beta1.ReasonRealmNotFound); ok {
		t.Errorf("ForRealm() = %+v, want none", r)
	}
}

func TestCommandsNameTheObject(t *testing.T) {
	tests := map[string]struct {
		reason v1beta1.ConditionReason
		spec   v1beta1.ApiClientSpec
		want   []string
	}{
		"realm suspended": {v1beta1.ReasonRealmSuspended, v1beta1.ApiClientSpec{}, []string{"kubectl realmkeeper resume realm/acme"}},
		"ready with a generated secret": {
			v1beta1.ReasonReady,
			v1beta1.ApiClientSpec{Secret: &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}},
			[]string{"kubectl realmkeeper token billing -n acme-apps"},
		},
		"ready without a generated secret": {v1beta1.ReasonReady, v1beta1.ApiClientSpec{}, []string{"kubectl describe apiclient billing -n acme-apps"}},
		"expired secrets": {
			v1beta1.ReasonExpired,
			v1beta1.ApiClientSpec{},
			[]string{"kubectl realmkeeper hash", "kubectl edit apiclient billing -n acme-apps"},
		},
		// Administrators copy commands for clients that other users created.
		"account with a command": {
			v1beta1.ReasonServiceAccountNotFound,
			v1beta1.ApiClientSpec{Identities: []v1beta1.Identity{account("x;reboot")}},
			[]string{"kubectl edit apiclient billing -n acme-apps"},
		},
		"account with an option": {
			v1beta1.ReasonServiceAccountNotFound,
			v1beta1.ApiClientSpec{Identities: []v1beta1.Identity{account("--as=admin"), account("worker")}},
			[]string{"kubectl create serviceaccount worker -n acme-apps"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := billing()
			test.spec.RealmRef = c.Spec.RealmRef
			c.Spec = test.spec
			got, ok := remedy.ForClient(c, acme, test.reason)
			if diff := cmp.Diff(test.want, got.Commands); !ok || diff != "" {
				t.Errorf("ForClient() = %t, commands (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// account returns an identity of a service account.
func account(name string) v1beta1.Identity {
	return v1beta1.Identity{Name: "account", ServiceAccount: v1beta1.ServiceAccountReference{Name: name}}
}

// placeholder is a valid text in no field that commands check.
const placeholder = "PLACE_HOLDER"

// chosen returns a client and a realm whose authors chose the text for every field that occurs in
// commands.
func chosen(text string, secret *v1beta1.ClientSecretSource) (*v1beta1.ApiClient, *v1beta1.Realm) {
	c := &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: text, Name: text},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: text}, ClientID: text, Secret: secret,
			Scopes: []string{text}, Audiences: []string{text}, Introspection: v1beta1.Introspection{Audiences: []string{"x" + text}},
			Identities: []v1beta1.Identity{account(text), {Name: text, Issuer: text, Subject: text}},
		},
	}
	return c, &v1beta1.Realm{
		ObjectMeta: metav1.ObjectMeta{Name: text, UID: types.UID(text)},
		Spec:       v1beta1.RealmSpec{Scopes: []string{text}, Audiences: []string{text, "x" + text}, TrustedIssuers: []v1beta1.TrustedIssuer{{Name: text}}},
	}
}

// calls returns the arguments of all commands. In JSON, it returns strings as they are, and omits the
// name of the grant, which is not the text itself.
func calls(t *testing.T, commands []string) [][]string {
	t.Helper()
	called := hostile.Run(t, strings.Join(commands, "\n"), "kubectl", "openssl")
	for _, words := range called {
		for i, word := range words {
			var secret struct{ StringData map[string]string }
			if json.Unmarshal([]byte(word), &secret) == nil && secret.StringData != nil {
				words[i] = fmt.Sprint(secret.StringData)
			}
			var patch []struct{ Value v1beta1.Grant }
			if json.Unmarshal([]byte(word), &patch) == nil {
				grant := patch[0].Value
				issuers := slices.DeleteFunc(grant.Issuers, func(name string) bool { return name == v1beta1.IssuerKubernetes }) // sorted after some texts
				words[i] = fmt.Sprint(grant.Namespaces.Names, grant.Scopes, grant.Audiences, grant.ClientIDs, issuers)
			}
		}
	}
	return called
}

// allCommands returns the commands of all remedies of objects with the text.
func allCommands(t *testing.T, text string) []string {
	t.Helper()
	var commands []string
	for _, secret := range []*v1beta1.ClientSecretSource{
		{Provided: &v1beta1.ProvidedSecret{SecretRef: v1beta1.SecretKeyReference{Name: text, Key: v1beta1.SecretDataKey(text)}}},
		{Generated: &v1beta1.GeneratedSecret{SecretName: text}},
		{Hashed: []v1beta1.HashedSecret{{ID: "a", HashSecretRef: v1beta1.HashSecretReference{Name: text}}}},
	} {
		c, realm := chosen(text, secret)
		for _, reason := range v1beta1.Reasons() {
			ofClient, _ := remedy.ForClient(c, func() *v1beta1.Realm { return realm }, reason)
			ofRealm, _ := remedy.ForRealm(realm, reason)
			commands = slices.Concat(commands, ofClient.Commands, ofRealm.Commands)
		}
	}
	return commands
}

// An administrator pastes the commands into a shell. Other users chose the names in them.
func TestCommandsPassExactText(t *testing.T) {
	benign := calls(t, allCommands(t, placeholder))
	var commands []string
	var want [][]string
	for _, text := range hostile.Texts {
		text = hostile.Argument(strings.ToValidUTF8(text, "\ufffd")) // as in every object of the API
		commands = append(commands, allCommands(t, text)...)
		for _, words := range benign {
			want = append(want, strings.Split(strings.ReplaceAll(strings.Join(words, "\x00"), placeholder, text), "\x00"))
		}
	}
	testkit.Diff(t, "Arguments", want, calls(t, commands))
}

// The suggested grant covers the client, and no client of the namespace that requests anything else.
func TestSuggestedGrantAllowsOnlyWhatIsRequested(t *testing.T) {
	const dpop = v1beta1.SenderConstraintDPoP
	in := func(namespace string, audiences []string, constraint v1beta1.SenderConstraint) v1beta1.Grant {
		return v1beta1.Grant{Namespaces: v1beta1.GrantedNamespaces{Names: []string{namespace}}, Audiences: audiences, SenderConstraint: constraint}
	}
	selected := v1beta1.Grant{Namespaces: v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{}}, Audiences: []string{"*"}, SenderConstraint: dpop}
	introspection := v1beta1.Introspection{Audiences: []string{"b", "i"}}
	accounts := []v1beta1.Identity{account("worker")}
	identities := append([]v1beta1.Identity{{Issuer: "github", Subject: "x"}, {Issuer: "aws", Subject: "y"}, {Issuer: "github", Subject: "z"}}, accounts...)
	tests := map[string]struct {
		reason         v1beta1.ConditionReason
		spec           v1beta1.ApiClientSpec
		realm          v1beta1.RealmSpec
		wantScopes     v1beta1.GrantedScopes
		wantAudiences  v1beta1.GrantedAudiences
		wantIssuers    []string
		wantClientIDs  []string
		wantConstraint v1beta1.SenderConstraint
	}{
		"nothing but a secret": {
			reason: v1beta1.ReasonNamespaceNotAllowed, wantAudiences: []string{"https://api.example.com/acme"},
		},
		"everything": {
			reason:     v1beta1.ReasonNotGranted,
			spec:       v1beta1.ApiClientSpec{ClientID: "x", Scopes: []string{"read"}, Audiences: []string{"a", "b"}, Introspection: introspection, Identities: identities, SenderConstraint: dpop},
			realm:      v1beta1.RealmSpec{Scopes: []string{"read", "write"}, Audiences: []string{"a", "b", "c", "i"}, TrustedIssuers: []v1beta1.TrustedIssuer{{Name: "aws"}, {Name: "github"}, {Name: "gitlab"}}},
			wantScopes: []string{"read"}, wantAudiences: []string{"a", "b", "i"}, wantIssuers: []string{"aws", "github", "kubernetes"}, wantClientIDs: []string{"x"}, wantConstraint: dpop,
		},
		"delegated scopes": {
			reason: v1beta1.ReasonNotGranted, spec: v1beta1.ApiClientSpec{Scopes: []string{"read"}, DelegatedScopes: []string{"act", "read"}, Audiences: []string{"a"}},
			realm:      v1beta1.RealmSpec{Scopes: []string{"read", "act", "write"}, Audiences: []string{"a"}},
			wantScopes: []string{"act", "read"}, wantAudiences: []string{"a"},
		},
		"audiences of the realm": {
			reason: v1beta1.ReasonNamespaceNotAllowed, realm: v1beta1.RealmSpec{Audiences: []string{"a", "b"}, Grants: []v1beta1.Grant{in("other", []string{"a"}, dpop), selected}},
			wantAudiences: []string{"a", "b"},
		},
		"audiences of the grant and of introspection": {
			reason: v1beta1.ReasonNotGranted, spec: v1beta1.ApiClientSpec{Introspection: v1beta1.Introspection{Audiences: []string{"a"}}},
			realm:         v1beta1.RealmSpec{Audiences: []string{"a", "b", "i"}, Grants: []v1beta1.Grant{in("acme-apps", []string{"a", "undefined"}, "")}},
			wantAudiences: []string{"a"},
		},
		"constraint of the grant": {
			reason: v1beta1.ReasonNotGranted, spec: v1beta1.ApiClientSpec{Scopes: []string{"write"}, Identities: accounts},
			realm:      v1beta1.RealmSpec{Scopes: []string{"write"}, Audiences: []string{"a"}, Grants: []v1beta1.Grant{in("acme-apps", []string{"*"}, ""), in("acme-apps", []string{"*"}, dpop)}},
			wantScopes: []string{"write"}, wantAudiences: []string{"a"}, wantIssuers: []string{"kubernetes"}, wantConstraint: dpop,
		},
		"constraint of a grant with a selector": {
			reason: v1beta1.ReasonNotGranted, realm: v1beta1.RealmSpec{Audiences: []string{"a"}, Grants: []v1beta1.Grant{selected}},
			wantAudiences: []string{"a"}, wantConstraint: dpop,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, realm := billing(), acme()
			test.spec.RealmRef, realm.Spec = c.Spec.RealmRef, test.realm
			c.Spec = test.spec
			r, _ := remedy.ForClient(c, func() *v1beta1.Realm { return realm }, test.reason)
			called := hostile.Run(t, strings.Join(r.Commands, "\n"), "kubectl")
			var patch []struct {
				Op, Path string
				Value    v1beta1.Grant
			}
			words := called[len(called)-1]
			if err := json.Unmarshal([]byte(words[len(words)-1]), &patch); err != nil || len(patch) != 1 || patch[0].Op != "add" || patch[0].Path != "/spec/grants/-" {
				t.Fatalf("Patch of %q is %+v, %v", words, patch, err)
			}
			grant := patch[0].Value
			want := v1beta1.Grant{
				Name: "acme-apps-billing", Namespaces: v1beta1.GrantedNamespaces{Names: []string{"acme-apps"}},
				Scopes: test.wantScopes, Audiences: test.wantAudiences, Issuers: test.wantIssuers, ClientIDs: test.wantClientIDs, SenderConstraint: test.wantConstraint,
			}
			testkit.Diff(t, "Grant", want, grant)
			if grant.AllowsIssuer("gitlab") || grant.AllowsScope("admin") || len(grant.Audiences) == 0 || grant.Namespaces.Includes("other", nil) {
				t.Errorf("Grant %+v covers clients that request something else", grant)
			}
			realm.Spec.Grants = append(realm.Spec.Grants, grant)
			request := grants.Request{Realm: realm, Issuer: realm.Status.Issuer, Client: c}
			if got := request.Coverage(); !got.Covers() {
				t.Errorf("Grant %+v doesn't cover the client: %s", grant, got.Problem())
			}
		})
	}
}

// No grant is suggested if its constraints are unknown, or if it would allow more than the client
// requests now.
func TestNoGrantIsSuggested(t *testing.T) {
	want := []string{"kubectl realmkeeper explain realm/acme", "kubectl edit realm acme"}
	realm := &v1beta1.Realm{Spec: v1beta1.RealmSpec{Scopes: []string{"read"}, Audiences: []string{"a", "i"}, Grants: []v1beta1.Grant{
		{Namespaces: v1beta1.GrantedNamespaces{Names: []string{"acme-apps"}}, Audiences: []string{"a"}},
	}}}
	tests := map[string]struct {
		realm *v1beta1.Realm
		spec  v1beta1.ApiClientSpec
	}{
		"realm that is not readable":      {},
		"realm without an issuer":         {realm: &v1beta1.Realm{}},
		"all scopes":                      {realm, v1beta1.ApiClientSpec{Scopes: []string{"*"}}},
		"undefined scope":                 {realm, v1beta1.ApiClientSpec{Scopes: []string{"read", "admin"}}},
		"undefined delegated scope":       {realm, v1beta1.ApiClientSpec{DelegatedScopes: []string{"admin"}}},
		"undefined introspected audience": {realm, v1beta1.ApiClientSpec{Audiences: []string{"a"}, Introspection: v1beta1.Introspection{Audiences: []string{"b"}}}},
		"undefined issuer":                {realm, v1beta1.ApiClientSpec{Identities: []v1beta1.Identity{{Issuer: "github"}}}},
		"audience only for introspection": {realm, v1beta1.ApiClientSpec{Introspection: v1beta1.Introspection{Audiences: []string{"i"}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := billing()
			test.spec.RealmRef = c.Spec.RealmRef
			c.Spec = test.spec
			r, _ := remedy.ForClient(c, func() *v1beta1.Realm { return test.realm }, v1beta1.ReasonNotGranted)
			testkit.Diff(t, "Commands", want, r.Commands)
		})
	}
}

// The name of a grant has at most 63 characters, and no dots.
func TestGrantNameIsValid(t *testing.T) {
	c := billing()
	c.Name = "a." + strings.Repeat("b", 51) + ".c"
	r, _ := remedy.ForClient(c, acme, v1beta1.ReasonNotGranted)
	if want := `"name":"acme-apps-a-` + strings.Repeat("b", 51) + `"`; !strings.Contains(r.Commands[1], want) {
		t.Errorf("Command %q does not contain %s", r.Commands[1], want)
	}
}
