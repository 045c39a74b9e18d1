package portal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

const day = 24 * time.Hour

// listedClient is a client whose status contains times that are months in the past and future. Times
// are relative to now, and 0 means never.
type listedClient struct {
	name, description           string
	age, used, expires, rotates time.Duration
	reason                      v1beta1.ConditionReason
	oldSecretInUse              bool
}

// createListed creates a client with its status. The operator must be stopped.
func createListed(t *testing.T, i *instance, namespace string, l listedClient) {
	t.Helper()
	now := time.Now().Truncate(time.Hour)
	at := func(d time.Duration) *metav1.Time {
		if d == 0 {
			return nil
		}
		return &metav1.Time{Time: now.Add(d)}
	}
	c := install.ApiClient(namespace, l.name, "acme", func(c *v1beta1.ApiClient) {
		c.Spec.Description, c.Spec.ExpirationTime = l.description, at(l.expires)
	})
	i.Create(t, c)
	condition := func(kind v1beta1.ConditionType, status metav1.ConditionStatus, reason v1beta1.ConditionReason, message string) metav1.Condition {
		return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: message, ObservedGeneration: c.Generation, LastTransitionTime: *at(-l.age)}
	}
	status := metav1.ConditionFalse
	if l.reason == v1beta1.ReasonReady {
		status = metav1.ConditionTrue
	}
	c.Status.Conditions = []metav1.Condition{condition(v1beta1.ConditionReady, status, l.reason, `Realm "acme" does not define these scopes from spec.scopes: refunds.`)}
	if l.oldSecretInUse {
		c.Status.Conditions = append(c.Status.Conditions, condition(v1beta1.ConditionOldSecretInUse, metav1.ConditionTrue, v1beta1.ReasonOldSecretUsed, ""))
	}
	c.Status.Credentials = []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypeSecret, Name: "a", State: v1beta1.CredentialCurrent, CreationTime: at(-l.age), LastUsedTime: at(-l.used)}}
	c.Status.LastUsedTime, c.Status.NextRotationTime = at(-l.used), at(l.rotates)
	if err := i.Env.Client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// rows returns the names of the clients in a list.
func (b *browser) rows() string {
	b.t.Helper()
	return strings.Join(evaluate[[]string](b, `[...document.querySelectorAll(".list tbody a")].map(a => a.textContent)`), " ")
}

// wantRows waits until the list has the clients.
func (b *browser) wantRows(want string) {
	b.t.Helper()
	install.Eventually(b.t, "list of clients", func() error {
		if got := b.rows(); got != want {
			return fmt.Errorf("list %s has %q, want %q", b.path(), got, want)
		}
		return nil
	})
}

// overviewAndLists tests what the overview counts, and the order and the filters of the list. The
// operator is stopped, so that clients can have any status.
func overviewAndLists(t *testing.T, i *instance, b *browser) {
	const team = "acme-shop" // name shown in the screenshots
	i.StopOperator(t)
	defer i.StartOperator(t, "")
	i.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}})
	for _, l := range []listedClient{
		{name: "billing", description: "Sends invoices.", age: 400 * day, used: 2 * time.Hour, rotates: 12 * day, reason: v1beta1.ReasonReady},
		{name: "export", description: "Nightly export.", age: 200 * day, used: 120 * day, reason: v1beta1.ReasonReady},
		{name: "orders", age: day, used: time.Hour, expires: 5 * day, reason: v1beta1.ReasonReady},
		{name: "partner", age: 300 * day, reason: v1beta1.ReasonSuspended},
		{name: "refunds", age: 3 * day, expires: 300 * day, reason: v1beta1.ReasonScopeNotInRealm},
		{name: "search", age: 50 * day, used: 3 * day, rotates: day, reason: v1beta1.ReasonReady, oldSecretInUse: true},
		{name: "trial", age: 10 * day, used: 9 * day, expires: -2 * day, reason: v1beta1.ReasonExpired},
	} {
		createListed(t, i, team, l)
	}
	b.signIn(i.admin)
	b.wantText("Overview")
	b.open("/?namespace=" + team)
	b.inspect("overview")
	for tile, want := range map[string]string{
		"Not ready 1 client Can't get tokens": "refunds", "Expires soon 1 client Within 30 days": "orders",
		"Ready 4 clients": "billing export orders search",
	} {
		b.open("/?namespace=" + team)
		b.press(tile)
		b.wantRows(want)
	}
	b.open("/clients?namespace=" + team)
	b.inspect("clients")
	t.Run("filters", func(t *testing.T) { filteredWithKeyboard(b.with(t), team) })
	t.Run("form", func(t *testing.T) { checkedWhileTyping(b.with(t), team) })
}

// with returns the tab for a subtest.
func (b *browser) with(t *testing.T) *browser {
	t.Helper()
	return &browser{t: t, ctx: b.ctx, url: b.url}
}

func filteredWithKeyboard(b *browser, team string) {
	b.open("/clients")
	if n := evaluate[int](b, `document.querySelectorAll("datalist option").length`); n > 0 {
		b.t.Errorf("Page has %d names before the user needs them", n)
	}
	for _, filter := range []struct{ id, want string }{{"namespace", team}, {"realm", "acme"}} {
		b.tabTo("#" + filter.id)
		install.Eventually(b.t, "names to select from", func() error {
			names := evaluate[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("#%ss option")].map(o => o.value)`, filter.id))
			if !slices.Contains(names, filter.want) || !slices.IsSorted(names) {
				return fmt.Errorf("names for %s are %q", filter.id, names)
			}
			return nil
		})
		b.key(filter.want + kb.Tab)
	}
	b.wantRows("billing export orders partner refunds search trial")
	b.tabTo("#attention")
	b.key("Unused")
	b.wantRows("export partner")
	b.tabTo("#state")
	b.key("Susp")
	b.wantRows("partner")
	b.show("light", devices[1])
	b.waitFor("#sort") // phones show it instead of the headers
	b.show("light", devices[0])
}

func checkedWhileTyping(b *browser, team string) {
	b.open("/clients/new")
	if got := evaluate[string](b, `document.querySelector("#namespace").value`); got != "" {
		b.t.Errorf("Form starts with the namespace %q, want none", got)
	}
	b.open("/clients/new?realm=acme&namespace=" + team)
	for _, step := range []struct{ field, text, problem string }{
		{"name", "Orders", "RFC 1123"},
		{"name", "billing", "already exists"},
		{"name", "new", ""},
		{"lifetime", "soon", "must be a duration"},
		{"lifetime", "1s", "must be"},
		{"lifetime", "5m", ""},
	} {
		evaluate[bool](b, fmt.Sprintf(`(document.querySelector("#%[1]s").value = "", document.querySelector("#%[1]s").focus(), true)`, step.field))
		b.key(step.text)
		install.Eventually(b.t, "problem of the field", func() error {
			got := evaluate[string](b, fmt.Sprintf(`document.querySelector("#%s-problem").textContent`, step.field))
			if step.problem == "" && got != "" || !strings.Contains(got, step.problem) {
				return fmt.Errorf("problem of %s with %q is %q", step.field, step.text, got)
			}
			if invalid := evaluate[bool](b, fmt.Sprintf(`document.querySelector("#%s").getAttribute("aria-invalid") === "true"`, step.field)); invalid != (step.problem != "") {
				return fmt.Errorf("%s with %q is marked as invalid: %t", step.field, step.text, invalid)
			}
			return nil
		})
	}
	b.open("/clients/" + team + "/new")
	b.wantText("Not found") // checks create nothing
}
