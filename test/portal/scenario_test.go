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

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The life of a client in the browser of the initial admin, who has scripts switched off. Each secret is
// in the one page that shows it, and nowhere else.
func lifeOfAClient(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	b.withoutScripts()
	b.open("/")
	b.wants("kubectl create token initial-admin --namespace " + i.Namespace)
	b.signIn(i.admin)
	b.press("Realms")
	b.press("acme")
	b.wants("Acme Corporation")
	b.press("Create a client")
	run(b, "Choosing the namespace", chromedp.SetValue("#namespace", team))
	b.fill("#name", "billing")
	b.fill("#description", "The billing of Acme")
	b.click(`input[value="orders.read"]`)
	b.press("Create the client")
	first := b.secret()
	i.wantTokens(t, team, "billing", first, true)
	b.press("I have copied it")

	b.press("Rotate")
	second := b.secret()
	i.wantTokens(t, team, "billing", second, true)
	i.wantTokens(t, team, "billing", first, true)
	b.press("I have copied it")
	b.press("End it now")
	i.wantTokens(t, team, "billing", first, false)
	i.wantTokens(t, team, "billing", second, true)

	began := time.Now()
	b.press("Suspend")
	i.wantTokens(t, team, "billing", second, false)
	t.Logf("Refused %s after the click on Suspend", time.Since(began))
	testinstall.Eventually(t, "the page to say so", func() error {
		b.open("/clients/" + team + "/billing") // without scripts
		if text := b.text(); !strings.Contains(text, "Suspended") {
			return errors.New(text)
		}
		return nil
	})
	b.press("Resume")
	i.wantTokens(t, team, "billing", second, true)

	b.press("Rotate") // the one that has ended makes room
	third := b.secret()
	i.wantTokens(t, team, "billing", third, true)
	b.press("I have copied it")
	wantNowhere(t, i, b, first, second, third)

	b.fill("#expires", "2020-01-01T00:00")
	b.press("Set the end")
	i.wantTokens(t, team, "billing", third, false)
	b.fill("#expires", "")
	b.press("Set the end")
	i.wantTokens(t, team, "billing", third, true)

	b.fill("#confirm", "another")
	b.press("Delete the client")
	b.wants("type its name")
	b.press("Go on")
	b.fill("#confirm", "billing")
	b.press("Delete the client")
	i.wantTokens(t, team, "billing", third, false)
	b.open("/clients/" + team + "/billing")
	b.wants("It isn't there")

	b.press("Sign out")
	b.open("/clients")
	b.wants("Token of Kubernetes")
	wantNowhere(t, i, b, first, second, third)
	wantAudited(t, i, team, "billing", []audit.Action{
		audit.ActionCreate, audit.ActionRotate, audit.ActionRevokeSecret, audit.ActionSuspend, audit.ActionResume,
		audit.ActionRotate, audit.ActionSetExpiration, audit.ActionSetExpiration, audit.ActionDelete,
	})
}

// withoutScripts keeps the tab from loading any.
func (b *browser) withoutScripts() {
	b.t.Helper()
	run(b, "Watching the network", chromedp.Action[chromedp.Void](func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := cdp.Call(ctx, t, network.SetBlockedURLs, network.SetBlockedURLsParams{
			URLPatterns: []*network.BlockPattern{{URLPattern: "http://localhost:*/assets/*.js*", Block: true}},
		})
		return chromedp.Void{}, err
	}))
}

// secret returns the secret that the page shows.
func (b *browser) secret() string {
	b.t.Helper()
	secret := b.read("#client-secret")
	if !clientsecret.WellFormed(secret) {
		b.t.Fatalf("%q is no secret", secret)
	}
	return secret
}

// wantNowhere fails the test unless each secret was in one page, and is in no log, object or cookie.
func wantNowhere(t *testing.T, i *instance, b *browser, secrets ...string) {
	t.Helper()
	places := map[string]string{
		"the log of the portal": string(i.portal.Log(t)), "the log of the operator": string(i.OperatorLog(t)),
		"a cookie": strings.Join(b.cookies(), "\n"), "the objects": objects(t, i),
	}
	for _, s := range i.Servers() {
		places["the log of "+s.Name] = string(i.Log(t, s))
	}
	for _, secret := range secrets {
		for place, content := range places {
			if strings.Contains(content, secret) {
				t.Errorf("A secret is in %s", place)
			}
		}
		pages := 0
		for _, page := range b.seen {
			if strings.Contains(page, secret) {
				pages++
			}
		}
		if pages != 1 {
			t.Errorf("A secret was in %d of %d pages, want 1", pages, len(b.seen))
		}
	}
	if !strings.Contains(places["the objects"], "Acme Corporation") {
		t.Error("The search through the objects doesn't find what is there")
	}
}

// objects returns all objects in which a secret might be.
func objects(t *testing.T, i *instance) string {
	t.Helper()
	var all strings.Builder
	for _, list := range []client.ObjectList{
		&v1alpha1.ApiClientList{}, &v1alpha1.RealmList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.EventList{}, &eventsv1.EventList{},
	} {
		if err := i.Env.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
		if secrets, ok := list.(*corev1.SecretList); ok { // as JSON has them encoded
			for _, secret := range secrets.Items {
				for _, value := range secret.Data {
					all.Write(value)
				}
			}
		}
	}
	return all.String()
}

// wantAudited fails the test unless these actions on a client are in the audit, in their order, with
// the initial admin, and unless the API server's audit log has them with the same person.
func wantAudited(t *testing.T, i *instance, namespace, name string, want []audit.Action) {
	t.Helper()
	admin := "system:serviceaccount:" + i.Namespace + ":initial-admin"
	testinstall.Eventually(t, "the audit lines", func() error {
		var got []audit.Action
		for _, line := range i.changes(t) {
			if line.ClientID == namespace+"."+name {
				got = append(got, line.Action)
			}
			if line.ClientID == namespace+"."+name && (line.Actor != admin || line.Outcome != audit.Granted || line.Realm != "acme" || !line.Source.IsValid()) {
				t.Fatalf("The audit has %+v", line)
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
			t.Errorf("The API server's audit log has %s as %s", event.UserAgent, event.User.Username)
		}
		writes++
	}
	if writes < len(want) {
		t.Errorf("The API server's audit log has %d writes, want at least %d", writes, len(want))
	}
}

// changes are the audit lines of the portal.
func (i *instance) changes(t *testing.T) (events []audit.Event) {
	t.Helper()
	for line := range bytes.Lines(i.portal.Log(t)) {
		var event audit.Event
		if !bytes.HasSuffix(line, []byte("}\n")) || !bytes.Contains(line, []byte(`"action":`)) {
			continue // it is being written, or of the log
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("The portal writes %q: %v", line, err)
		}
		events = append(events, event)
	}
	return events
}
