package federation_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// often is the speed-up factor with which the operator fetches issuers' keys every second.
const often = 600

// behavior is what a hostile issuer does.
type behavior struct {
	act  func(*issuer.Discovered)
	want string // in the condition
	// revokes is true if the behavior revokes the keys of the issuer.
	revokes bool
}

// hostile returns the behaviors of hostile issuers, which must not affect others.
func hostile(internal string) map[string]behavior {
	metadata := func(handler http.HandlerFunc) func(*issuer.Discovered) {
		return func(d *issuer.Discovered) { d.ServeMetadata(handler) }
	}
	keys := func(handler http.HandlerFunc) func(*issuer.Discovered) {
		return func(d *issuer.Discovered) { d.ServeKeys(handler) }
	}
	return map[string]behavior{
		"slow":        {act: keys(issuer.Trickle), want: "did not get an HTTP response"},
		"redirect":    {act: metadata(issuer.Redirect(internal)), want: "redirects"},
		"html":        {act: metadata(issuer.Respond(http.StatusOK, "<html>"+issuer.Canary)), want: "no valid jwks_uri"},
		"private-key": {act: (*issuer.Discovered).ServePrivateKey, want: "private or symmetric key", revokes: true},
		"no-keys":     {act: keys(issuer.Respond(http.StatusOK, `{"keys":[]}`)), want: "no supported keys", revokes: true},
		"down":        {act: (*issuer.Discovered).Stop, want: "did not get an HTTP response"},
	}
}

// Hostile and unavailable issuers don't affect other issuers. Their own last known keys stay in use,
// unless the issuer revokes them. The condition names each of these issuers and the cause. No object
// or log repeats what they sent.
func TestHostileIssuers(t *testing.T) {
	internal, reached := startInternal(t)
	inst := install.New(t, env.Start(t), install.Settings{SpeedUp: often, LocalIssuers: true})
	inst.OperatorEnv = []string{"ALL_PROXY=http://proxy.acme.example:3128"}
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	good, issuers := issuer.StartDiscovered(t, "good"), map[string]*issuer.Discovered{}
	realm := install.Realm("acme", func(r *v1beta1.Realm) { r.Spec.TrustedIssuers = append(r.Spec.TrustedIssuers, good.Trusted()) })
	behaviors := hostile(internal)
	for name := range behaviors {
		issuers[name] = issuer.StartDiscovered(t, name)
		realm.Spec.TrustedIssuers = append(realm.Spec.TrustedIssuers, issuers[name].Trusted())
	}
	users := []*issuer.Discovered{good, issuers["slow"], issuers["html"], issuers["down"]}
	revoked := []*issuer.Discovered{issuers["private-key"], issuers["no-keys"]}
	c := install.ApiClient(inst.Env.Namespace(t), "orders", "acme", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = nil
		for _, user := range slices.Concat(users, revoked) {
			c.Spec.Identities = append(c.Spec.Identities, install.Subjects(user.Trusted().Name, "workload")...)
		}
	})
	inst.Create(t, realm, c)
	awaitIssuers(t, inst, realm, metav1.ConditionTrue, v1beta1.ReasonIssuersResolved)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	ready := meta.FindStatusCondition(realm.Status.Conditions, string(v1beta1.ConditionReady)).LastTransitionTime

	for _, user := range revoked {
		expectToken(t, inst, c, user.Token(t, realm.Status.Issuer, "workload", nil))
	}
	for name, behavior := range behaviors {
		behavior.act(issuers[name])
	}
	install.Eventually(t, "all issuers to fail", func() error {
		message := awaitIssuers(t, inst, realm, metav1.ConditionFalse, v1beta1.ReasonIssuerNotResolved)
		for name, behavior := range behaviors {
			s := statusOf(realm, name)
			if s.FirstFailureTime == nil || !strings.Contains(s.Message, behavior.want) || !strings.Contains(message, fmt.Sprintf("%q (%s)", name, issuers[name].URL())) {
				return fmt.Errorf("issuer %s has the status %+v, want %q; the condition is %q", name, s, behavior.want, message)
			}
			if behavior.revokes != (len(s.KeyIDs) == 0) || !behavior.revokes && s.KeyIDs[0] != name {
				return fmt.Errorf("issuer %s has the keys %v, want the last ones: %t", name, s.KeyIDs, !behavior.revokes)
			}
		}
		return nil
	})
	if s := statusOf(realm, "good"); s.FirstFailureTime != nil {
		t.Errorf("the good issuer is failing: %s", s.Message)
	}
	for _, user := range users {
		expectToken(t, inst, c, user.Token(t, realm.Status.Issuer, "workload", nil))
	}
	for _, issuer := range revoked {
		install.Eventually(t, "tokens of "+issuer.URL()+" to be rejected", func() error {
			for _, s := range inst.Servers() {
				assertion := issuer.Token(t, realm.Status.Issuer, "workload", nil)
				response, err := install.RequestTokenByAssertion(t, s, s.Client(t), c.Status.TokenEndpoint, "", assertion)
				if err != nil {
					return err
				}
				if response.AccessToken != "" {
					return fmt.Errorf("%s issued a token", s.Name)
				}
			}
			return nil
		})
	}
	awaitFetches(t, inst, good, "good")
	if !strings.Contains(string(inst.OperatorLog(t)), string(trustedissuers.ErrConnection)) {
		t.Errorf("the operator's log does not contain %q, which conditions hide", trustedissuers.ErrConnection)
	}
	inst.AwaitEvent(t, realm, corev1.EventTypeWarning, v1beta1.EventIssuerNotResolved)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	if again := meta.FindStatusCondition(realm.Status.Conditions, string(v1beta1.ConditionReady)).LastTransitionTime; !again.Equal(&ready) {
		t.Error("the Realm was not Ready in the meantime")
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("issuers made the operator send %d requests to an internal server", n)
	}
	expectNoCanary(t, inst)

	for name := range behaviors {
		issuers[name].Behave()
	}
	install.Change(t, inst, realm, func(r *v1beta1.Realm) {
		for i := range r.Spec.TrustedIssuers {
			if r.Spec.TrustedIssuers[i].Name == "down" { // it can't start again
				r.Spec.TrustedIssuers = append(r.Spec.TrustedIssuers[:i], r.Spec.TrustedIssuers[i+1:]...)
				break
			}
		}
	})
	awaitIssuers(t, inst, realm, metav1.ConditionTrue, v1beta1.ReasonIssuersResolved)
	inst.AwaitEvent(t, realm, corev1.EventTypeNormal, v1beta1.EventIssuerResolved)
	if strings.Contains(inst.OperatorMetrics(t), `issuer="down"`) {
		t.Error("the operator has metrics of an issuer that is no longer trusted")
	}
}

// The operator doesn't connect to a local address, even if a host name resolves to it.
func TestLocalIssuersAreDenied(t *testing.T) {
	internal, reached := startInternal(t)
	inst := install.New(t, env.Start(t), install.Settings{SpeedUp: often})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	address := strings.Replace(internal, "http://", "https://", 1)
	realm := install.Realm("acme", func(r *v1beta1.Realm) {
		for name, url := range map[string]string{
			"address": address, "name": strings.Replace(address, "127.0.0.1", "localhost", 1),
			"cloud": "https://169.254.169.254", "mapped": "https://[::ffff:127.0.0.1]:1234",
		} {
			r.Spec.TrustedIssuers = append(r.Spec.TrustedIssuers, v1beta1.TrustedIssuer{Name: name, Issuer: v1beta1.IssuerURL(url)})
		}
	})
	inst.Create(t, realm)
	install.Eventually(t, "the addresses to be denied", func() error {
		awaitIssuers(t, inst, realm, metav1.ConditionFalse, v1beta1.ReasonIssuerNotResolved)
		for _, s := range realm.Status.TrustedIssuers {
			if !strings.Contains(s.Message, "not allowed") {
				return fmt.Errorf("issuer %s has the message %q", s.Name, s.Message)
			}
		}
		return nil
	})
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	if n := reached.Load(); n > 0 {
		t.Errorf("the local server got %d connections", n)
	}
}

// expectToken checks that all token servers accept a token of a trusted issuer.
func expectToken(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient, assertion string) {
	t.Helper()
	for _, s := range inst.Servers() {
		response, err := install.RequestTokenByAssertion(t, s, s.Client(t), c.Status.TokenEndpoint, "", assertion)
		if err != nil || response.AccessToken == "" {
			t.Errorf("%s responded with %+v, %v", s.Name, response, err)
		}
	}
}

// startInternal starts a server that only the operator can reach, and counts its connections.
func startInternal(t *testing.T) (url string, reached *atomic.Int64) {
	t.Helper()
	reached = &atomic.Int64{}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			reached.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, reached
}

// awaitIssuers waits for the IssuersResolved condition and returns its message. It updates the Realm.
func awaitIssuers(t *testing.T, inst *install.Installation, realm *v1beta1.Realm, status metav1.ConditionStatus, reason v1beta1.ConditionReason) string {
	t.Helper()
	message := ""
	install.Eventually(t, fmt.Sprintf("the issuers to be %s/%s", status, reason), func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		c := meta.FindStatusCondition(realm.Status.Conditions, string(v1beta1.ConditionIssuersResolved))
		if c == nil || c.Status != status || c.Reason != string(reason) || c.ObservedGeneration != realm.Generation {
			return fmt.Errorf("the condition is %+v", c)
		}
		message = c.Message
		return nil
	})
	return message
}

func statusOf(realm *v1beta1.Realm, name string) v1beta1.TrustedIssuerStatus {
	for _, s := range realm.Status.TrustedIssuers {
		if s.Name == name {
			return s
		}
	}
	return v1beta1.TrustedIssuerStatus{}
}

// awaitFetches waits until the operator has fetched the keys of an issuer again, and checks the
// metrics.
func awaitFetches(t *testing.T, inst *install.Installation, d *issuer.Discovered, name string) {
	t.Helper()
	const metric = `realmkeeper_issuer_last_success_timestamp_seconds{issuer=%q,realm="acme"}`
	before, requests := inst.OperatorMetric(t, fmt.Sprintf(metric, name)), d.Requests()
	install.Eventually(t, "more fetches from "+name, func() error {
		if after := inst.OperatorMetric(t, fmt.Sprintf(metric, name)); after == before || d.Requests() < requests+4 {
			return fmt.Errorf("last success at %s, was %s, after %d requests", after, before, d.Requests()-requests)
		}
		return nil
	})
}

// expectNoCanary checks that no object or log contains a part of a hostile response.
func expectNoCanary(t *testing.T, inst *install.Installation) {
	t.Helper()
	for _, list := range []client.ObjectList{&v1beta1.RealmList{}, &eventsv1.EventList{}, &corev1.SecretList{}} {
		if err := inst.Env.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if secrets, ok := list.(*corev1.SecretList); ok {
			for i := range secrets.Items {
				for _, data := range secrets.Items[i].Data {
					if strings.Contains(string(data), issuer.Canary) {
						t.Errorf("Secret %s repeats a response", secrets.Items[i].Name)
					}
				}
			}
			continue
		}
		data, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), issuer.Canary) {
			t.Errorf("%T repeats a response", list)
		}
	}
	if strings.Contains(string(inst.OperatorLog(t)), issuer.Canary) {
		t.Error("the operator's log repeats a response")
	}
}
