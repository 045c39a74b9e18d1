package interop_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/api/verify"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// testStatusLists checks that the offline verifiers for Go and Node.js, and an independent implementation of
// status lists, reject the token of a suspended client, and accept it again. They run at the same time.
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
	node, independent := listed.startVerifier(t, "status-list.js"), listed.startVerifier(t, "jwt-status-list.js")
	library, err := verify.New(t.Context(), listed.issuer, verify.Options{Audience: audience, Client: i.server.Client(t), Status: verify.StatusRequired})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(library.Close)
	// Each returns the reason of a rejection.
	verifiers := map[string]func(token string) string{
		"Node.js":         func(token string) string { return node.verify(t, token).Error },
		"jwt-status-list": func(token string) string { return independent.verify(t, token).Error },
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
	testListAsToken(t, &listed, token)
}

var errVerdict = errors.New("the verifier says something else")

// TestNodeSampleReadsStatusLists checks that the code for Node.js in docs/verify.md reads a list as the
// specification says, and that no list makes it accept a token or use much memory.
func TestNodeSampleReadsStatusLists(t *testing.T) {
	// The entries are those of draft-ietf-oauth-status-list, section 4.1.
	entries := []byte{0xb9, 0xa3}
	valid := map[string]any{"bits": 1, "lst": deflate(t, entries)}
	const revoked, missing, unavailable = "token is revoked", "status list has no entry for the token", "status list is unavailable"
	lists := map[string]struct {
		list any
		want map[any]string // the error for each index
	}{
		"example": {valid, map[any]string{
			0: revoked, 1: "", 2: "", 3: revoked, 4: revoked, 5: revoked, 6: "", 7: revoked,
			8: revoked, 9: revoked, 10: "", 11: "", 12: "", 13: revoked, 14: "", 15: revoked,
			16: missing, -1: missing, 1.5: missing, 1 << 33: missing, "1": missing,
		}},
		"largest":         {map[string]any{"bits": 1, "lst": deflate(t, make([]byte, 1<<17))}, map[any]string{1<<20 - 1: "", 1 << 20: missing}},
		"too large":       {map[string]any{"bits": 1, "lst": deflate(t, make([]byte, 1<<17+1))}, map[any]string{1: unavailable}},
		"bomb":            {map[string]any{"bits": 1, "lst": deflate(t, make([]byte, 64<<20))}, map[any]string{1: unavailable}},
		"two bits":        {map[string]any{"bits": 2, "lst": valid["lst"]}, map[any]string{1: unavailable}},
		"truncated":       {map[string]any{"bits": 1, "lst": "eNrbuRgA"}, map[any]string{1: unavailable}},
		"not compressed":  {map[string]any{"bits": 1, "lst": "uaM"}, map[any]string{1: unavailable}},
		"without entries": {map[string]any{"bits": 1}, map[any]string{1: unavailable}},
		"text":            {"uaM", map[any]string{1: unavailable}},
	}
	key, _ := newKey(t)
	listKey, _ := newKey(t)
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	now := time.Now()
	claims := map[string]any{
		"iss": server.URL, "sub": "billing", "client_id": "billing", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "ttl": 10,
	}
	for path, key := range map[string]jose.JSONWebKey{"/oauth2/jwks": key, "/oauth2/status/jwks": listKey} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
		})
	}
	uris := map[string]string{}
	for name := range lists {
		path := fmt.Sprintf("/oauth2/status/%d", len(uris))
		uris[name] = server.URL + path
		listClaims := with(claims, map[string]any{"sub": uris[name], "status_list": lists[name].list})
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/statuslist+jwt")
			_, _ = io.WriteString(w, signJWT(t, listKey, "statuslist+jwt", listClaims))
		})
	}
	authority := filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	const program = "status-list.js"
	node := startVerifier(t, program, nodeCommand(context.WithoutCancel(t.Context()), t, program,
		"NODE_EXTRA_CA_CERTS="+authority, "ISSUER="+server.URL, "AUDIENCE="+audience))
	for name, test := range lists {
		t.Run(name, func(t *testing.T) {
			for index, want := range test.want {
				reference := map[string]any{"status_list": map[string]any{"uri": uris[name], "idx": index}}
				if got := node.verify(t, signJWT(t, key, "at+jwt", with(claims, map[string]any{"status": reference}))).Error; got != want {
					t.Errorf("entry %v: got %q, want %q", index, got, want)
				}
			}
		})
	}
}

func with(claims, changes map[string]any) map[string]any {
	all := maps.Clone(claims)
	maps.Copy(all, changes)
	return all
}

func deflate(t *testing.T, entries []byte) string {
	t.Helper()
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	_, err := w.Write(entries)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(compressed.Bytes())
}

func signJWT(t *testing.T, key jose.JSONWebKey, typ jose.ContentType, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType(typ))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
