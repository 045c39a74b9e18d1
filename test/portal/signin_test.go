package portal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	issuer "github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// oidcSignIn tests that users can sign in at an issuer that the API server trusts, and that they
// have the permissions of the user named in their token. Each replica accepts sessions from the
// others.
func oidcSignIn(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	authority := filepath.Join(t.TempDir(), "issuer.crt")
	if err := os.WriteFile(authority, idp.Authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	i.Bind(t, "manage-api-credentials", "", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "oidc:grace"})
	portal := i.StartProviderPortal(t, idp.URL(), issuer.ClientID, authority)
	other := i.StartPortal(t)

	b.url = portal.URL
	b.signInAs("grace")
	b.wantText("oidc:grace")
	b.open("/clients/new?realm=acme&namespace=" + team)
	b.fill("#name", "from-oidc")
	b.press("Create client")
	i.wantTokens(t, team, "from-oidc", b.secret(), true)

	// Browsers send cookies for localhost to all ports.
	replica := &browser{t: t, ctx: b.ctx, url: other.URL}
	replica.open("/clients?namespace=" + team)
	replica.wantText("from-oidc")

	unprivileged := b.tab(t)
	unprivileged.signInAs("nobody")
	unprivileged.wantText("You need the role Manage api credentials in the whole cluster")
	unprivileged.wantText("kubectl create clusterrolebinding NAME --clusterrole=manage-api-credentials --user=oidc:nobody")

	t.Run("session expires with the token", func(t *testing.T) {
		idp.SetTokenLifetime(2 * time.Second)
		defer idp.SetTokenLifetime(time.Hour)
		short := b.tab(t)
		short.signInAs("grace")
		install.Eventually(t, "session expiration", func() error {
			short.open("/clients")
			if short.path() != "/sign-in" {
				return errors.New("the session is still valid")
			}
			return nil
		})
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
