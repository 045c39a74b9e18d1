package portal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// keyboardOnly signs in, changes a client, and deletes it without a pointer. The focus is always
// visible, enters a dialog when it opens, and returns when it closes.
func keyboardOnly(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	billing := install.ApiClient(team, "billing", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = hashed(t, "a") })
	i.Create(t, billing)
	b.open("/sign-in")
	b.tabTo("#token")
	b.submit(i.admin)
	b.open("/clients/" + team + "/billing")
	b.tabTo("button[popovertarget=suspend]")
	b.key(kb.Enter)
	b.wantFocus("#suspend button")
	b.key(kb.Escape)
	b.wantFocus("button[popovertarget=suspend]")
	b.key(kb.Enter)
	b.tabTo("#suspend .danger")
	b.submit("")
	i.get(t, billing)
	if !billing.Spec.Suspend {
		t.Error("Client isn't suspended")
	}
	b.tabTo("button[popovertarget=expiration]")
	b.key(kb.Enter)
	b.wantFocus("#expires")
	b.key(kb.Escape)
	b.tabTo("button[popovertarget=delete]")
	b.key(kb.Enter)
	b.wantFocus("#confirm")
	b.submit("billing")
	if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(billing), billing); !apierrors.IsNotFound(err) {
		t.Errorf("Got %v, want that the client was deleted", err)
	}
}

// key presses a key, or types text.
func (b *browser) key(keys string) {
	b.t.Helper()
	run(b, "Typing", chromedp.KeyEvent(keys))
}

// submit types text and submits it with Enter.
func (b *browser) submit(text string) {
	b.t.Helper()
	if text != "" {
		b.key(text)
	}
	b.navigate("Pressing Enter", chromedp.KeyEvent(kb.Enter))
}

// tabTo presses Tab until an element that matches the selector has the focus.
func (b *browser) tabTo(selector string) {
	b.t.Helper()
	const visible = `(e => {
		const s = getComputedStyle(e);
		return e === document.body || s.boxShadow !== "none" || s.outlineStyle !== "none" && s.outlineWidth !== "0px";
	})(document.activeElement)`
	for range 50 {
		b.key(kb.Tab)
		if !evaluate[bool](b, visible) {
			b.t.Errorf("The focus isn't visible on %s", evaluate[string](b, "document.activeElement.outerHTML"))
		}
		if evaluate[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
	}
	b.t.Fatalf("The Tab key doesn't reach %s", selector)
}

func (b *browser) wantFocus(selector string) {
	b.t.Helper()
	if !evaluate[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
		b.t.Errorf("The focus is on %s, want %s", evaluate[string](b, "document.activeElement.outerHTML"), selector)
	}
}

// conditionRemedies tests that the page of a failing client shows what to do, with commands to copy,
// and that polling replaces its state only if the client has changed.
func conditionRemedies(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	lost := install.ApiClient(team, "lost", "nowhere")
	i.Create(t, lost)
	i.AwaitReady(t, lost, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound)
	b.signIn(i.admin)
	b.open("/clients/" + team + "/lost")
	for _, want := range []string{"Accepted", "RealmNotFound", `Realm "nowhere" in spec.realmRef not found`, "Create the Realm."} {
		b.wantText(want)
	}
	if got := b.read("#Ready-command-0"); got != "kubectl get realms" {
		t.Errorf("Command of Ready is %q, want kubectl get realms", got)
	}
	const copyButtons = `document.querySelectorAll("#state button[data-copy]:not([hidden])").length`
	if got := evaluate[int](b, copyButtons); got != 1 {
		t.Errorf("State has %d copy buttons, want 1", got)
	}
	i.get(t, lost)
	path := "/clients/" + team + "/lost/state?seen="
	status := func(seen string) int {
		return evaluate[int](b, fmt.Sprintf(`fetch(%q, {headers: {"HX-Request": "true"}}).then(r => r.status)`, path+seen))
	}
	if got := status(lost.ResourceVersion); got != 204 {
		t.Errorf("Status for the current version is %d, want 204", got)
	}
	if got := status("1"); got != 200 {
		t.Errorf("Status for an earlier version is %d, want 200", got)
	}
	evaluate[any](b, fmt.Sprintf(`(document.querySelector("#state").dataset.old = "yes", htmx.ajax("GET", %q, {target: "#state", swap: "outerHTML"}).then(() => null))`, path+"1"))
	b.waitFor("#state:not([data-old]) button[data-copy]")
}

// withHistory stops the operator and writes statuses for the realm acme and a client with two secrets
// that would otherwise take weeks. The caller must call the returned function, which restores the
// status.
func withHistory(t *testing.T, i *instance, c *v1beta1.ApiClient) (restore func()) {
	t.Helper()
	i.StopOperator(t)
	now := time.Now().Truncate(time.Hour)
	at := func(hours int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(hours) * time.Hour)) }
	after := func(hours int) *metav1.Time { return new(at(hours)) }
	realm := install.Realm("acme")
	i.get(t, realm)
	key := func(id string, state v1beta1.SigningKeyState, created metav1.Time, active, remove *metav1.Time) v1beta1.SigningKeyStatus {
		return v1beta1.SigningKeyStatus{KeyID: id, Algorithm: v1beta1.SigningAlgorithmES256, State: state, CreationTime: created, ActivationTime: active, RemovalTime: remove}
	}
	realm.Status.SigningKeys = []v1beta1.SigningKeyStatus{
		key("Yk3qv0V1cN8Uu0mJm5hH2w1mXnR7sQ4tZ6bE9aLpD0s", v1beta1.SigningKeyRetiring, at(-240), after(-228), after(24)),
		key("b2JvYxq9S4nHc7Tg1LrWd3Ku8Fz5Pm6Av0Eo2Ni4Xs8", v1beta1.SigningKeyActive, at(-60), after(-48), nil),
		key("u7RkTf2Zp9Lw4Qe6Hs1Mn8Bv3Cx5Gd0Jy7Ao2Ki4Ur6", v1beta1.SigningKeyPending, at(-6), nil, nil),
	}
	realm.Status.NextKeyTransitionTime = after(36)
	if err := i.Env.Client.Status().Update(t.Context(), realm); err != nil {
		t.Fatal(err)
	}
	i.get(t, c)
	c.Status.LastUsedTime = after(-1)
	for k := range c.Status.Credentials {
		s := &c.Status.Credentials[k]
		s.CreationTime, s.LastUsedTime = after(-30), after(-1)
		if s.ExpirationTime != nil {
			s.CreationTime, s.LastUsedTime = after(-70), after(-9)
		}
	}
	if err := i.Env.Client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return func() {
		i.StartOperator(t, "")
		i.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	}
}
