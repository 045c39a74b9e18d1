package interop_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/api/verify"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// testStatusLists checks that the offline verifiers for Go and Node.js, which run at the same time, reject the
// token of a suspended client, and accept it again.
func testStatusLists(t *testing.T, i *installation) {
	realm := install.Realm("listed", func(r *v1beta1.Realm) {
		r.Spec.Audiences, r.Spec.Scopes = i.realm.Spec.Audiences, i.realm.Spec.Scopes
		r.Spec.StatusList = v1beta1.StatusList{Enabled: true, TTL: &v1beta1.Duration{Duration: 5 * time.Second}}
	})
	newClient := func(name string) *v1beta1.ApiClient {
		return install.ApiClient(i.client.Namespace, name, realm.Name, func(c *v1beta1.ApiClient) {
			c.Spec.Scopes, c.Spec.Audiences = []string{scope}, []string{audience}
		})
	}
	suspended, other := newClient("listed"), newClient("listed-other")
	i.inst.Create(t, realm, suspended, other)
	token, otherToken := i.tokenOf(t, i.awaitReady(t, suspended)), i.tokenOf(t, i.awaitReady(t, other))

	listed := *i
	listed.issuer = i.issuer[:len(i.issuer)-len(i.realm.Name)] + realm.Name
	node := listed.startVerifier(t, "status-list.js")
	library, err := verify.New(t.Context(), listed.issuer, verify.Options{Audience: audience, Client: i.server.Client(t), Status: verify.StatusRequired})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(library.Close)
	// Each returns the reason of a rejection.
	verifiers := map[string]func(token string) string{
		"Node.js": func(token string) string { return node.verify(t, token).Error },
		"Go": func(token string) string {
			switch _, err := library.Verify(t.Context(), token); {
			case errors.Is(err, verify.ErrRevoked):
				return "token is revoked"
			case err != nil:
				return err.Error()
			}
			return ""
		},
	}
	for _, tc := range []struct {
		suspend bool
		want    string
	}{{false, ""}, {true, "token is revoked"}, {false, ""}} {
		install.Change(t, i.inst, suspended, func(c *v1beta1.ApiClient) { c.Spec.Suspend = tc.suspend })
		for name, reject := range verifiers {
			install.Eventually(t, fmt.Sprintf("%s with a suspended client: %t", name, tc.suspend), func() error {
				if got := reject(token); got != tc.want {
					return fmt.Errorf("%w: %q", errVerdict, got)
				}
				return nil
			})
			if got := reject(otherToken); got != "" {
				t.Errorf("%s rejects the token of another client: %s", name, got)
			}
		}
	}
}

var errVerdict = errors.New("the verifier says something else")
