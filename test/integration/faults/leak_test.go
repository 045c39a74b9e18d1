package faults_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/leak"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// canary is a secret and the places that may contain it. The search must find it in each of them;
// otherwise the search itself is broken.
type canary struct {
	name    string
	secrets []string // the secret and values derived from it, such as an Authorization header
	where   []string // sorted
}

// Secrets and private keys don't leak. The test performs all operations on them. It then searches
// all objects in the cluster, all logs at the most verbose level, all metrics and all snapshots for
// them, in all common encodings.
func TestSecretsDoNotLeak(t *testing.T) {
	cluster := env.Start(t)
	// In tests, token servers and portals always log at debug level.
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600, LogLevel: "debug"})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	fixture := &leakFixture{t: t, inst: inst, team: cluster.Namespace(t), realm: install.Realm("acme")}
	inst.Create(t, fixture.realm)

	fixture.generated()
	fixture.provided()
	fixture.hashed()
	fixture.signingKeys()
	fixture.invalidRequests()
	portal := fixture.portal()
	fixture.restarts()
	fixture.corruptRecord()

	found := leak.PlacesOf(t, inst)
	found["log of the portal"], found["metrics of the portal"] = string(portal.Log(t)), portal.Metrics(t)
	debug := map[string][]string{"log of the operator": {`"level":"debug"`}}
	for _, s := range inst.Servers() {
		debug["log of "+s.Name] = []string{`"level":"DEBUG","msg":"Rejected assertion"`, `"level":"DEBUG","msg":"Rejected DPoP proof"`}
	}
	for place, entries := range debug {
		for _, entry := range entries {
			if !strings.Contains(found[place], entry) {
				t.Errorf("the %s has no entry %s", place, entry)
			}
		}
	}
	for _, c := range fixture.canaries {
		if diff := cmp.Diff(c.where, found.Containing(c.secrets)); diff != "" {
			t.Errorf("%s is in other places (-want +got):\n%s", c.name, diff)
		}
	}
	for _, s := range inst.Servers() {
		info, err := os.Stat(filepath.Join(s.SnapshotDir, "records"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the snapshot of %s has mode %s", s.Name, info.Mode())
		}
	}
}

// leakFixture performs operations and collects the canaries.
type leakFixture struct {
	t        *testing.T
	inst     *install.Installation
	team     string
	realm    *v1beta1.Realm
	canaries []canary
}

func (f *leakFixture) add(name string, secrets []string, where ...string) {
	slices.Sort(where)
	f.canaries = append(f.canaries, canary{name, secrets, where})
}

// formsInRequests returns a client secret and the encoded value that requests contain.
func formsInRequests(c *v1beta1.ApiClient, secret string) []string {
	return []string{secret, basicAuthorization(c.Status.ClientID, secret)}
}

func basicAuthorization(id, secret string) string {
	return base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
}

func (f *leakFixture) client(name string, change ...func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
	c := install.ApiClient(f.team, name, f.realm.Name, change...)
	f.inst.Create(f.t, c)
	return c
}

func (f *leakFixture) ready(c *v1beta1.ApiClient) {
	f.inst.AwaitReady(f.t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
}

// generated rotates a generated secret, and suspends and deletes clients.
func (f *leakFixture) generated() {
	c := f.client("generated", func(c *v1beta1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(time.Second) })
	f.ready(c)
	credentials := f.inst.CredentialsSecret(f.t, c)
	old := string(credentials.Data[v1beta1.SecretKeyClientSecret])
	f.inst.AwaitTokens(f.t, credentials, true)
	scenario.RotateSecret(f.t, f.inst, c)
	scenario.AwaitSecretRotated(f.t, f.inst, c)
	f.inst.AwaitTokens(f.t, credentials, false)
	f.add("a replaced generated secret", formsInRequests(c, old))

	install.Change(f.t, f.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	credentials = f.inst.CredentialsSecret(f.t, c)
	f.inst.AwaitTokens(f.t, credentials, false)
	install.Change(f.t, f.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
	f.ready(c)
	f.inst.AwaitTokens(f.t, credentials, true)
	f.add("a generated secret", formsInRequests(c, string(credentials.Data[v1beta1.SecretKeyClientSecret])), "Secret "+f.team+"/generated")

	deleted := f.client("deleted")
	f.ready(deleted)
	credentials = f.inst.CredentialsSecret(f.t, deleted)
	f.inst.Delete(f.t, deleted)
	f.inst.AwaitTokens(f.t, credentials, false)
	install.Eventually(f.t, "the credentials Secret of a deleted client to be deleted", func() error {
		return install.NotFound(f.inst.Env.Client.Get(f.t.Context(), client.ObjectKeyFromObject(credentials), &corev1.Secret{}))
	})
	f.add("the secret of a deleted client", formsInRequests(deleted, string(credentials.Data[v1beta1.SecretKeyClientSecret])))
}

// provided changes provided secrets, including some that can't be used.
func (f *leakFixture) provided() {
	old, fresh, odd := generateSecret(f.t), "correct horse & battery staple: "+generateSecret(f.t), generateSecret(f.t)+"\n"
	secret := scenario.ProvidedSecret(f.team, old)
	secret.Labels = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	unlabeled := scenario.ProvidedSecret(f.team, generateSecret(f.t))
	unlabeled.Name = "unlabeled"
	f.inst.Create(f.t, secret, unlabeled)
	c, rejected := f.client("provided", scenario.UseProvidedSecret), f.client("rejected", func(c *v1beta1.ApiClient) {
		scenario.UseProvidedSecret(c)
		c.Spec.Secret.Provided.SecretRef.Name = unlabeled.Name
	})
	f.ready(c)
	f.inst.AwaitReady(f.t, rejected, metav1.ConditionFalse, v1beta1.ReasonSecretNotLabeled)
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, old), true)
	install.Change(f.t, f.inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(odd) })
	f.inst.AwaitReady(f.t, c, metav1.ConditionFalse, v1beta1.ReasonSecretNotUsable)
	install.Change(f.t, f.inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(fresh) })
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, fresh), true)
	f.ready(c)
	f.add("a replaced provided secret", formsInRequests(c, old))
	f.add("an unusable provided secret", []string{strings.TrimSpace(odd)})
	f.add("a provided secret", formsInRequests(c, fresh), "Secret "+f.team+"/external")
	f.add("a provided secret without the label", formsInRequests(rejected, string(unlabeled.Data["PASSWORD"])), "Secret "+f.team+"/unlabeled")
}

// hashed uses hashed secrets. Their plain text enters the cluster only in token requests.
func (f *leakFixture) hashed() {
	strong, weak := generateSecret(f.t), "Tr0ub4dor&3 "+generateSecret(f.t)
	strongHash, err := clientsecret.Hash(strong, rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	weakHash, err := clientsecret.HashArgon2id(weak, rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	c := f.client("hashed", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{{ID: "strong", Hash: strongHash.String()}, {ID: "weak", Hash: weakHash.String()}}}
	})
	f.ready(c)
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, strong), true)
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, weak), true)
	f.add("a hashed secret", formsInRequests(c, strong))
	f.add("an Argon2id-hashed secret", formsInRequests(c, weak))
}

// signingKeys rotates the signing keys. A key remains in the record until the last token that it
// signed has expired.
func (f *leakFixture) signingKeys() {
	install.Change(f.t, f.inst, f.realm, func(r *v1beta1.Realm) {
		r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: time.Now().Add(time.Second).Truncate(time.Second)}
	})
	install.Eventually(f.t, "a different active key", func() error {
		f.inst.AwaitReady(f.t, f.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
		for _, key := range f.realm.Status.SigningKeys {
			if key.State == "Retiring" {
				return nil
			}
		}
		return fmt.Errorf("the keys are %v", f.realm.Status.SigningKeys)
	})
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: f.inst.RecordsNamespace, Name: record.RealmRecordName(f.realm.UID)}
	if err := f.inst.Env.Client.Get(f.t.Context(), name, secret); err != nil {
		f.t.Fatal(err)
	}
	var stored struct {
		Body struct {
			Keys []struct {
				JWK   struct{ D string }
				State string
			}
		}
	}
	if err := json.Unmarshal(secret.Data[record.DataKey], &stored); err != nil {
		f.t.Fatal(err)
	}
	where := []string{"Secret " + name.String()}
	for _, s := range f.inst.Servers() {
		where = append(where, "snapshot of "+s.Name)
	}
	for _, key := range stored.Body.Keys {
		if key.State == "Retiring" {
			if key.JWK.D != "" {
				f.t.Error("the record contains the private part of a key that no longer signs")
			}
			continue
		}
		private, err := base64.RawURLEncoding.DecodeString(key.JWK.D)
		if err != nil || len(private) == 0 {
			f.t.Fatalf("the record contains a key without a private part: %v", err)
		}
		f.add("the private part of a key in state "+key.State, []string{key.JWK.D, string(private)}, where...)
	}
}

// invalidRequests sends invalid requests that carry a secret in each part of the request.
func (f *leakFixture) invalidRequests() {
	c := &v1beta1.ApiClient{}
	if err := f.inst.Env.Client.Get(f.t.Context(), types.NamespacedName{Namespace: f.team, Name: "generated"}, c); err != nil {
		f.t.Fatal(err)
	}
	id, form := c.Status.ClientID, "application/x-www-form-urlencoded"
	valid := string(f.inst.CredentialsSecret(f.t, c).Data[v1beta1.SecretKeyClientSecret])
	for name, change := range map[string]func(*http.Request, string){
		"a wrong secret":        func(r *http.Request, s string) { r.SetBasicAuth(id, s) },
		"an unknown client":     func(r *http.Request, s string) { r.SetBasicAuth("unknown", s) },
		"a secret as client ID": func(r *http.Request, s string) { r.SetBasicAuth(s, "x") },
		"a secret in the query": func(r *http.Request, s string) { r.URL.RawQuery += "&client_id=" + id + "&client_secret=" + s },
		"an unknown parameter":  func(r *http.Request, s string) { r.URL.RawQuery += "&" + s + "=" + s },
		"a grant type":          func(r *http.Request, s string) { r.URL.RawQuery = "grant_type=" + s },
		"a bearer":              func(r *http.Request, s string) { r.Header.Set("Authorization", "Bearer "+s) },
		"a broken header":       func(r *http.Request, s string) { r.Header.Set("Authorization", "Basic "+s+"%") },
		"a path":                func(r *http.Request, s string) { r.URL.Path = "/" + s },
		"a method":              func(r *http.Request, s string) { r.Method = s; r.SetBasicAuth(id, s) },
		"a large header":        func(r *http.Request, s string) { r.Header.Set("X-Large", strings.Repeat(s, 500)) },
		"a secret in the body": func(r *http.Request, s string) {
			r.Header.Set("Content-Type", form)
			withBody(r, "client_id="+id+"&client_secret="+s)
		},
		"a body of the wrong type": func(r *http.Request, s string) { withBody(r, `{"client_secret":"`+s+`"}`) },
		"an assertion": func(r *http.Request, s string) {
			r.Header.Set("Content-Type", form)
			withBody(r, url.Values{"client_id": {id}, "client_assertion_type": {oauth.AssertionTypeJWT}, "client_assertion": {s + "." + s + "." + s}}.Encode())
		},
		"a DPoP proof": func(r *http.Request, s string) { r.Header.Set("DPoP", s+"."+s+"."+s); r.SetBasicAuth(id, valid) },
		"a large body": func(r *http.Request, s string) {
			r.Header.Set("Content-Type", form)
			withBody(r, strings.Repeat(s, 200))
		},
	} {
		secret := generateSecret(f.t)
		for _, s := range f.inst.Servers() {
			r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, c.Status.TokenEndpoint+"?grant_type=client_credentials", http.NoBody)
			if err != nil {
				f.t.Fatal(err)
			}
			change(r, secret)
			response, err := s.Client(f.t).Do(r)
			if err != nil {
				continue // if the request is too large, the server may close the connection
			}
			response.Body.Close()
			if response.StatusCode < http.StatusBadRequest {
				f.t.Errorf("%s: the response is %s, want an error", name, response.Status)
			}
		}
		f.add(name, []string{secret, basicAuthorization(id, secret)})
	}
}

func withBody(r *http.Request, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

// portal signs in with a valid and an invalid Kubernetes token.
func (f *leakFixture) portal() *install.Portal {
	portal := f.inst.StartPortal(f.t)
	withoutRedirects := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(r *http.Request, wantStatus int) *http.Response {
		f.t.Helper()
		response, err := withoutRedirects.Do(r)
		if err != nil {
			f.t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != wantStatus {
			f.t.Fatalf("%s %s: the response is %s, want %d", r.Method, r.URL.Path, response.Status, wantStatus)
		}
		return response
	}
	request := func(method, path string, form url.Values) *http.Request {
		r, err := http.NewRequestWithContext(f.t.Context(), method, portal.URL+path, strings.NewReader(form.Encode()))
		if err != nil {
			f.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	valid, invalid := f.inst.ServiceAccount(f.t, f.team, "user"), generateSecret(f.t)
	send(request(http.MethodPost, "/sign-in", url.Values{"token": {invalid}}), http.StatusUnauthorized)
	session := send(request(http.MethodPost, "/sign-in", url.Values{"token": {valid}}), http.StatusSeeOther).Cookies()
	authorized := request(http.MethodGet, "/clients", nil)
	var cookies []string
	for _, cookie := range session {
		if cookie.Value != "" { // an empty value deletes a cookie
			authorized.AddCookie(cookie)
			cookies = append(cookies, cookie.Value)
		}
	}
	send(authorized, http.StatusForbidden) // the session is valid, but the account has no permissions
	f.add("a Kubernetes token", []string{valid})
	f.add("an invalid Kubernetes token", []string{invalid})
	f.add("a session of the portal", cookies)
	return portal
}

// restarts kills and restarts all programs.
func (f *leakFixture) restarts() {
	f.inst.KillAndRestartOperator(f.t)
	for _, s := range f.inst.Servers() {
		s.KillAndRestart(f.t)
		s.AwaitReady(f.t)
	}
	for _, name := range []string{"generated", "provided", "hashed"} {
		c := install.ApiClient(f.team, name, f.realm.Name)
		install.Change(f.t, f.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Description = "Changed." })
		f.ready(c)
	}
}

// corruptRecord overwrites a record. Messages about a corrupt record must not contain its content.
func (f *leakFixture) corruptRecord() {
	broken := f.client("corrupt")
	f.ready(broken)
	secret := generateSecret(f.t)
	corrupt := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.inst.RecordsNamespace, Name: scenario.RecordName(f.t, f.inst, broken)}}
	install.Change(f.t, f.inst, corrupt, func(s *corev1.Secret) {
		s.Data[record.DataKey] = fmt.Appendf(nil, `{"schemaVersion":1,"body":{"clientID":"%[1]s","secrets":[{"hash":"%[1]s"}]}}`, secret)
	})
	f.inst.AwaitReady(f.t, broken, metav1.ConditionFalse, v1beta1.ReasonRecordUnreadable)
	for _, s := range f.inst.Servers() {
		install.Eventually(f.t, s.Name+" to detect the corrupt record", func() error {
			if got := s.Metric(f.t, "realmkeeper_registry_unreadable_records"); got != "1" {
				return fmt.Errorf("it reports %s unreadable records", got)
			}
			return nil
		})
	}
	f.add("the content of a corrupt record", []string{secret}, "Secret "+f.inst.RecordsNamespace+"/"+corrupt.Name)
}
