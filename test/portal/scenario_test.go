package portal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// clientLifecycle tests all client actions with scripts disabled. Each secret appears on exactly
// one page and nowhere else.
func clientLifecycle(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	b.withoutScripts()
	b.open("/")
	b.wantText("kubectl create token initial-admin --namespace " + i.Namespace)
	b.signIn(i.admin)
	if got, want := evaluate[string](b, `document.querySelector(".user").title`), "system:serviceaccount:"+i.Namespace+":initial-admin"; b.read(".user bdi") != "initial-admin" || got != want {
		t.Errorf("User is %q with the title %q, want the title %q", b.read(".user bdi"), got, want)
	}
	b.press("Realms")
	b.press("acme")
	b.wantText("Acme Corporation")
	b.press("Create client")
	run(b, "Selecting the namespace", chromedp.SetValue("#namespace", team))
	b.press("Continue")
	b.fill("#name", "billing")
	b.fill("#description", "Billing of Acme")
	b.click(`input[value="orders.read"]`)
	b.press("Create client")
	first := b.secret()
	i.wantTokens(t, team, "billing", first, true)
	b.press("Done")

	b.act("Rotate")
	second := b.secret()
	i.wantTokens(t, team, "billing", second, true)
	i.wantTokens(t, team, "billing", first, true)
	b.press("Done")
	b.act("Revoke")
	i.wantTokens(t, team, "billing", first, false)
	i.wantTokens(t, team, "billing", second, true)

	start := time.Now()
	b.act("Suspend")
	i.wantTokens(t, team, "billing", second, false)
	t.Logf("Token requests rejected %s after Suspend", time.Since(start))
	install.Eventually(t, "page of the suspended client", func() error {
		b.open("/clients/" + team + "/billing")
		if text := b.text(); !strings.Contains(text, "Suspended") {
			return errors.New(text)
		}
		return nil
	})
	b.act("Resume")
	i.wantTokens(t, team, "billing", second, true)

	b.act("Rotate") // replaces the revoked secret
	third := b.secret()
	i.wantTokens(t, team, "billing", third, true)
	b.press("Done")
	wantNotLeaked(t, i, b, first, second, third)

	b.actWith("Expiration", "#expires", "2020-01-01T00:00")
	i.wantTokens(t, team, "billing", third, false)
	b.actWith("Expiration", "#expires", "")
	i.wantTokens(t, team, "billing", third, true)

	b.actWith("Delete", "#confirm", "another")
	b.wantText("Enter the exact client name")
	b.press("Back to client")
	b.actWith("Delete", "#confirm", "billing")
	i.wantTokens(t, team, "billing", third, false)
	b.open("/clients/" + team + "/billing")
	b.wantText("Not found")

	b.press("Sign out")
	b.open("/clients")
	b.wantText("Kubernetes token")
	wantNotLeaked(t, i, b, first, second, third)
	wantAudited(t, i, team, "billing", []audit.Action{
		audit.ActionCreate, audit.ActionRotate, audit.ActionRevokeSecret, audit.ActionSuspend, audit.ActionResume,
		audit.ActionRotate, audit.ActionSetExpiration, audit.ActionSetExpiration, audit.ActionDelete,
	})
}

// withoutScripts prevents the tab from loading scripts.
func (b *browser) withoutScripts() {
	b.t.Helper()
	run(b, "Blocking scripts", chromedp.Action[chromedp.Void](func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := cdp.Call(ctx, t, network.SetBlockedURLs, network.SetBlockedURLsParams{
			URLPatterns: []*network.BlockPattern{{URLPattern: "http://localhost:*/assets/*.js*", Block: true}},
		})
		return chromedp.Void{}, err
	}))
}

// secret returns the client secret on the page.
func (b *browser) secret() string {
	b.t.Helper()
	secret := b.read("#client-secret")
	if !clientsecret.WellFormed(secret) {
		b.t.Fatalf("%q is not a client secret", secret)
	}
	return secret
}

// wantNotLeaked fails the test unless each secret appeared on exactly one page and in no log,
// object or cookie.
func wantNotLeaked(t *testing.T, i *instance, b *browser, secrets ...string) {
	t.Helper()
	sources := map[string]string{
		"portal log": string(i.portal.Log(t)), "operator log": string(i.OperatorLog(t)),
		"cookies": strings.Join(b.cookies(), "\n"), "objects": objects(t, i),
	}
	for _, s := range i.Servers() {
		sources["log of "+s.Name] = string(i.Log(t, s))
	}
	for _, secret := range secrets {
		for source, content := range sources {
			if strings.Contains(content, secret) {
				t.Errorf("Secret found in %s", source)
			}
		}
		pages := 0
		for _, page := range b.sources {
			if strings.Contains(page, secret) {
				pages++
			}
		}
		if pages != 1 {
			t.Errorf("Secret found on %d of %d pages, want 1", pages, len(b.sources))
		}
	}
	if !strings.Contains(sources["objects"], "Acme Corporation") {
		t.Error("Object search doesn't find a known value")
	}
}

// objects returns the content of all objects that may contain a secret.
func objects(t *testing.T, i *instance) string {
	t.Helper()
	var all strings.Builder
	for _, list := range []client.ObjectList{
		&v1beta1.ApiClientList{}, &v1beta1.RealmList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.EventList{}, &eventsv1.EventList{},
	} {
		if err := i.Env.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
		if secrets, ok := list.(*corev1.SecretList); ok { // values in JSON are base64-encoded
			for _, secret := range secrets.Items {
				for _, value := range secret.Data {
					all.Write(value)
				}
			}
		}
	}
	return all.String()
}

// wantAudited waits for audit events for the given actions, in order and with the initial admin as
// the actor. It also checks the user in the API server's audit log.
func wantAudited(t *testing.T, i *instance, namespace, name string, want []audit.Action) {
	t.Helper()
	admin := "system:serviceaccount:" + i.Namespace + ":initial-admin"
	install.Eventually(t, "audit events", func() error {
		var got []audit.Action
		for _, event := range i.changes(t) {
			if event.ClientID == namespace+"."+name {
				got = append(got, event.Action)
			}
			if event.ClientID == namespace+"."+name && (event.Actor != admin || event.Outcome != audit.Granted || event.Realm != "acme" || !event.Source.IsValid()) {
				t.Fatalf("Unexpected audit event %+v", event)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
	writes := 0
	for _, event := range i.Env.Writes(t) {
		if ref := event.ObjectRef; ref == nil || ref.Resource != "apiclients" || ref.Namespace != namespace || ref.Subresource != "" {
			continue
		}
		if event.User.Username != admin || !strings.HasPrefix(event.UserAgent, "realmkeeper-portal/") {
			t.Errorf("API server audit log: user agent %s, user %s", event.UserAgent, event.User.Username)
		}
		writes++
	}
	if writes < len(want) {
		t.Errorf("API server audit log has %d writes, want at least %d", writes, len(want))
	}
}

// changes returns the audit events of the portal.
func (i *instance) changes(t *testing.T) (events []audit.Event) {
	t.Helper()
	for line := range bytes.Lines(i.portal.Log(t)) {
		var event audit.Event
		if !bytes.HasSuffix(line, []byte("}\n")) || !bytes.Contains(line, []byte(`"action":`)) {
			continue // incomplete, or a log line
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("Invalid audit event %q: %v", line, err)
		}
		events = append(events, event)
	}
	return events
}
