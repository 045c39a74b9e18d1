package portal_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
)

// The life of a client, in the browser of the initial admin.
func TestLifeOfAClient(t *testing.T) {
	i := startInstance(t)
	b := startBrowser(t, i.portal.URL)
	b.open("/")
	b.wants("kubectl create token initial-admin --namespace " + i.Namespace)
	b.signIn(i.admin)
	b.wants("No clients.")

	b.press("Realms")
	b.press("acme")
	b.wants("https://api.")
	b.press("Create a client")
	b.fill("#namespace", i.team)
	b.fill("#name", "billing")
	b.fill("#description", "The billing of Acme")
	b.click(`input[value="orders.read"]`)
	b.press("Create the client")
	first := b.secret()
	i.wantTokens(t, "billing", first, true)

	b.press("I have copied it")
	b.awaits("#state .badge.good")

	b.press("Rotate")
	second := b.secret()
	i.wantTokens(t, "billing", first, true)
	i.wantTokens(t, "billing", second, true)
	b.press("I have copied it")
	b.press("End it now")
	i.wantTokens(t, "billing", first, false)
	i.wantTokens(t, "billing", second, true)

	b.press("Suspend")
	i.wantTokens(t, "billing", second, false)
	b.press("Resume")
	i.wantTokens(t, "billing", second, true)

	b.fill("#confirm", "another")
	b.press("Delete the client")
	b.wants("type its name")
	b.press("Go on")
	b.fill("#confirm", "billing")
	b.press("Delete the client")
	b.wants("No clients.")
	i.wantTokens(t, "billing", second, false)

	b.press("Sign out")
	b.open("/clients")
	b.wants("Token of Kubernetes")
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
