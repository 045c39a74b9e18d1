package portal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
	testissuer "github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// People sign in at an issuer that the API server trusts, and have there the rights that Kubernetes gives
// the name in their token. Each replica opens what another has sealed.
func signInAtAnIssuer(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	authority := filepath.Join(t.TempDir(), "issuer.crt")
	if err := os.WriteFile(authority, issuer.Authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	i.Bind(t, "manage-api-credentials", "", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "oidc:grace"})
	portal := i.StartProviderPortal(t, issuer.URL(), testissuer.ClientID, authority)
	other := i.StartPortal(t)

	b.url = portal.URL
	b.signInAs("grace")
	b.wants("oidc:grace")
	b.open("/clients/new?realm=acme&namespace=" + team)
	b.fill("#name", "from-oidc")
	b.press("Create the client")
	i.wantTokens(t, team, "from-oidc", b.secret(), true)

	// Cookies of localhost are for all of its ports.
	replica := &browser{t: t, ctx: b.ctx, url: other.URL}
	replica.open("/clients?namespace=" + team)
	replica.wants("from-oidc")

	nobody := b.tab(t)
	nobody.signInAs("nobody")
	nobody.wants("You don't hold the role Manage api credentials here.")
	nobody.wants("kubectl create clusterrolebinding NAME --clusterrole=manage-api-credentials --user=oidc:nobody")

	t.Run("the session ends with the token", func(t *testing.T) {
		issuer.TokensLast(2 * time.Second)
		defer issuer.TokensLast(time.Hour)
		short := b.tab(t)
		short.signInAs("grace")
		testinstall.Eventually(t, "the session to end", func() error {
			short.open("/clients")
			if short.at() != "/sign-in" {
				return errors.New("it goes on")
			}
			return nil
		})
	})
	t.Run("an answer that nobody asked for is refused", func(t *testing.T) {
		stranger := b.tab(t)
		stranger.open("/sign-in/callback?code=x&state=y")
		stranger.wants("The sign-in can't be completed")
	})
}

// signInAs signs in at the issuer.
func (b *browser) signInAs(user string) {
	b.t.Helper()
	b.open("/sign-in")
	b.press("Sign in with your identity provider")
	b.fill("#user", user)
	b.press("Continue")
}
