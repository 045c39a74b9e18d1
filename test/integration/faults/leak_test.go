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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// canary is something secret, and where it may be found; it must be found there too, or
// the search is blind.
type canary struct {
	name    string
	secrets []string // the secret, and what is made of it, such as an Authorization header
	where   []string // sorted
}

// Secrets and private keys stand where they belong and nowhere else, after everything has
// happened that can happen to them: at the most talkative level of both programs, in all
// objects of the cluster, all logs, all metrics and all snapshots, in any usual encoding.
func TestCanaries(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600})
	inst.LogLevel = "7" // the operator refuses any beyond
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	flock := &flock{t: t, inst: inst, team: cluster.Namespace(t), realm: install.Realm("acme")}
	inst.Create(t, flock.realm)

	flock.generated()
	flock.provided()
	flock.hashed()
	flock.signingKeys()
	flock.strangers()
	flock.restarts()
	flock.damaged()

	places := placesOf(t, inst)
	for _, c := range flock.canaries {
		if diff := cmp.Diff(c.where, places.holding(c.secrets)); diff != "" {
			t.Errorf("%s is elsewhere (-want +got):\n%s", c.name, diff)
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

// flock lets things happen and keeps the canaries.
type flock struct {
	t        *testing.T
	inst     *install.Installation
	team     string
	realm    *v1alpha1.Realm
	canaries []canary
}

func (f *flock) add(name string, secrets []string, where ...string) {
	slices.Sort(where)
	f.canaries = append(f.canaries, canary{name, secrets, where})
}

// of returns a client's secret as it is, and as its requests carry it.
func of(c *v1alpha1.ApiClient, secret string) []string {
	return []string{secret, basicAuthorization(c.Status.ClientID, secret)}
}

func basicAuthorization(id, secret string) string {
	return base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
}

// made returns a secret that nobody else has.
func made(t *testing.T) string {
	t.Helper()
	secret, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func (f *flock) client(name string, change ...func(*v1alpha1.ApiClient)) *v1alpha1.ApiClient {
	c := install.ApiClient(f.team, name, f.realm.Name, change...)
	f.inst.Create(f.t, c)
	return c
}

func (f *flock) ready(c *v1alpha1.ApiClient) {
	f.inst.AwaitReady(f.t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// generated secrets rotate, and their client is suspended for a while.
func (f *flock) generated() {
	c := f.client("generated", func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	f.ready(c)
	credentials := f.inst.CredentialsSecret(f.t, c)
	old := string(credentials.Data[v1alpha1.SecretKeyClientSecret])
	f.inst.AwaitTokens(f.t, credentials, true)
	scenario.RotateSecret(f.t, f.inst, c)
	scenario.AwaitSecretRotated(f.t, f.inst, c)
	f.inst.AwaitTokens(f.t, credentials, false)
	f.add("a generated secret that was replaced", of(c, old))

	install.Change(f.t, f.inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	credentials = f.inst.CredentialsSecret(f.t, c)
	f.inst.AwaitTokens(f.t, credentials, false)
	install.Change(f.t, f.inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	f.ready(c)
	f.inst.AwaitTokens(f.t, credentials, true)
	f.add("a generated secret", of(c, string(credentials.Data[v1alpha1.SecretKeyClientSecret])), "Secret "+f.team+"/generated")

	gone := f.client("gone")
	f.ready(gone)
	credentials = f.inst.CredentialsSecret(f.t, gone)
	f.inst.Delete(f.t, gone)
	f.inst.AwaitTokens(f.t, credentials, false)
	install.Eventually(f.t, "the consumer Secret of a deleted client to be gone", func() error {
		err := f.inst.Env.Client.Get(f.t.Context(), client.ObjectKeyFromObject(credentials), &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading it gives %v", err)
	})
	f.add("the secret of a client that was deleted", of(gone, string(credentials.Data[v1alpha1.SecretKeyClientSecret])))
}

// provided secrets are changed, and some can't be taken.
func (f *flock) provided() {
	old, fresh, odd := made(f.t), "correct horse & battery staple: "+made(f.t), made(f.t)+"\n"
	secret := scenario.ProvidedSecret(f.team, old)
	secret.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	unlabelled := scenario.ProvidedSecret(f.team, made(f.t))
	unlabelled.Name = "unlabelled"
	f.inst.Create(f.t, secret, unlabelled)
	c, refused := f.client("provided", scenario.UseProvidedSecret), f.client("refused", func(c *v1alpha1.ApiClient) {
		scenario.UseProvidedSecret(c)
		c.Spec.Secret.Provided.SecretRef.Name = unlabelled.Name
	})
	f.ready(c)
	f.inst.AwaitReady(f.t, refused, metav1.ConditionFalse, v1alpha1.ReasonSecretNotLabelled)
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, old), true)
	install.Change(f.t, f.inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(odd) })
	f.inst.AwaitReady(f.t, c, metav1.ConditionFalse, v1alpha1.ReasonSecretNotUsable)
	install.Change(f.t, f.inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(fresh) })
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, fresh), true)
	f.ready(c)
	f.add("a provided secret that was replaced", of(c, old))
	f.add("a provided secret that can't be used", []string{strings.TrimSpace(odd)})
	f.add("a provided secret", of(c, fresh), "Secret "+f.team+"/vault")
	f.add("a provided secret without the label", of(refused, string(unlabelled.Data["PASSWORD"])), "Secret "+f.team+"/unlabelled")
}

// hashed secrets never enter the cluster, but in requests.
func (f *flock) hashed() {
	fast, slow := made(f.t), "Tr0ub4dor&3 "+made(f.t)
	quick, err := clientsecret.Hash(fast, rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	human, err := clientsecret.HashArgon2id(slow, rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	c := f.client("hashed", func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: "fast", Hash: quick.String()}, {ID: "slow", Hash: human.String()}}}
	})
	f.ready(c)
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, fast), true)
	f.inst.AwaitTokens(f.t, scenario.Credentials(c, slow), true)
	f.add("a hashed secret", of(c, fast))
	f.add("a hashed secret of a person", of(c, slow))
}

// signingKeys rotate. Each stays in the record until its last token has expired.
func (f *flock) signingKeys() {
	install.Change(f.t, f.inst, f.realm, func(r *v1alpha1.Realm) {
		r.Spec.Signing.RotateAfter = &metav1.Time{Time: time.Now().Add(time.Second).Truncate(time.Second)}
	})
	install.Eventually(f.t, "another key to sign", func() error {
		f.inst.AwaitReady(f.t, f.realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
		for _, key := range f.realm.Status.SigningKeys {
			if key.State == "Retiring" {
				return nil
			}
		}
		return fmt.Errorf("the keys are %v", f.realm.Status.SigningKeys)
	})
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: f.inst.Namespace, Name: record.SecretName(record.KindRealm, f.realm.UID)}
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
		private, err := base64.RawURLEncoding.DecodeString(key.JWK.D)
		if err != nil || len(private) == 0 {
			f.t.Fatalf("a key has no private part: %v", err)
		}
		f.add("the private part of a key that is "+key.State, []string{key.JWK.D, string(private)}, where...)
	}
}

// strangers ask in every wrong way, and write secrets where they don't belong.
func (f *flock) strangers() {
	c := &v1alpha1.ApiClient{}
	if err := f.inst.Env.Client.Get(f.t.Context(), types.NamespacedName{Namespace: f.team, Name: "generated"}, c); err != nil {
		f.t.Fatal(err)
	}
	id, form := c.Status.ClientID, "application/x-www-form-urlencoded"
	for name, ask := range map[string]func(*http.Request, string){
		"a wrong secret":             func(r *http.Request, s string) { r.SetBasicAuth(id, s) },
		"a secret of nobody":         func(r *http.Request, s string) { r.SetBasicAuth("nobody", s) },
		"a secret for a client id":   func(r *http.Request, s string) { r.SetBasicAuth(s, "x") },
		"a secret in the query":      func(r *http.Request, s string) { r.URL.RawQuery += "&client_id=" + id + "&client_secret=" + s },
		"an unknown parameter":       func(r *http.Request, s string) { r.URL.RawQuery += "&" + s + "=" + s },
		"a grant type":               func(r *http.Request, s string) { r.URL.RawQuery = "grant_type=" + s },
		"a bearer":                   func(r *http.Request, s string) { r.Header.Set("Authorization", "Bearer "+s) },
		"a broken header":            func(r *http.Request, s string) { r.Header.Set("Authorization", "Basic "+s+"%") },
		"a path":                     func(r *http.Request, s string) { r.URL.Path = "/" + s },
		"a method":                   func(r *http.Request, s string) { r.Method = s; r.SetBasicAuth(id, s) },
		"a header that is too large": func(r *http.Request, s string) { r.Header.Set("X-Large", strings.Repeat(s, 500)) },
		"a secret in the body": func(r *http.Request, s string) {
			r.Header.Set("Content-Type", form)
			withBody(r, "client_id="+id+"&client_secret="+s)
		},
		"a body of another type": func(r *http.Request, s string) { withBody(r, `{"client_secret":"`+s+`"}`) },
		"a body that is too large": func(r *http.Request, s string) {
			r.Header.Set("Content-Type", form)
			withBody(r, strings.Repeat(s, 200))
		},
	} {
		secret := made(f.t)
		for _, s := range f.inst.Servers() {
			r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, c.Status.TokenEndpoint+"?grant_type=client_credentials", http.NoBody)
			if err != nil {
				f.t.Fatal(err)
			}
			ask(r, secret)
			answer, err := s.Client(f.t).Do(r)
			if err != nil {
				continue // a server may close the connection on what is too large
			}
			answer.Body.Close()
			if answer.StatusCode < http.StatusBadRequest {
				f.t.Errorf("%s: %s", name, answer.Status)
			}
		}
		f.add(name, []string{secret, basicAuthorization(id, secret)})
	}
}

func withBody(r *http.Request, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

// restarts end one program after the other without a word.
func (f *flock) restarts() {
	f.inst.KillAndRestartOperator(f.t)
	for _, s := range f.inst.Servers() {
		s.KillAndRestart(f.t)
		s.AwaitReady(f.t)
	}
	for _, name := range []string{"generated", "provided", "hashed"} {
		c := install.ApiClient(f.team, name, f.realm.Name)
		install.Change(f.t, f.inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Description = "Seen again." })
		f.ready(c)
	}
}

// damaged records are told of, without what stands in them.
func (f *flock) damaged() {
	broken := f.client("damaged")
	f.ready(broken)
	secret := made(f.t)
	damaged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.inst.Namespace, Name: record.SecretName(record.KindClient, broken.UID)}}
	install.Change(f.t, f.inst, damaged, func(s *corev1.Secret) {
		s.Data[record.DataKey] = fmt.Appendf(nil, `{"schemaVersion":1,"body":{"clientID":"%[1]s","secrets":[{"hash":"%[1]s"}]}}`, secret)
	})
	f.inst.AwaitReady(f.t, broken, metav1.ConditionFalse, v1alpha1.ReasonRecordUnreadable)
	for _, s := range f.inst.Servers() {
		install.Eventually(f.t, s.Name+" to see the damage", func() error {
			if got := s.Metric(f.t, "realmkeeper_registry_unreadable_records"); got != "1" {
				return fmt.Errorf("it counts %s unreadable records", got)
			}
			return nil
		})
	}
	f.add("what stands in a damaged record", []string{secret}, "Secret "+f.inst.Namespace+"/"+damaged.Name)
}
