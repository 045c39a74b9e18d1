package token_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	encoded := testkit.Value(json.Marshal(value))(t)
	return string(encoded)
}

// A user who can change the credentials Secret chooses the server that the plugin contacts, and so
// everything in its response.
func TestTokenPrintsHostileResponse(t *testing.T) {
	for _, text := range hostile.Texts {
		header := encode(mustJSON(t, map[string]string{"alg": "ES256", "kid": text}))
		claims := encode(mustJSON(t, map[string]any{text: []string{text}, "sub": text}))
		server := endpoint(t, response{http.StatusOK, mustJSON(t, map[string]any{
			"access_token": header + "." + claims + "." + encode("signature"), "token_type": text, "scope": text, "expires_in": 300,
		})})
		code, stdout, stderr := plugintest.Run(t, "token", "--from-directory", mounted(t, server, nil))
		hostile.CheckPrintable(t, stdout)
		if code != 0 || stderr != "" || strings.Count(stdout, "\n") != 10 {
			t.Errorf("With %q: exit code %d, stderr %q, %d lines; want 0 and 10 lines:\n%s", text, code, stderr, strings.Count(stdout, "\n"), stdout)
		}
	}
}

func TestTokenPrintsHostileError(t *testing.T) {
	for _, text := range hostile.Texts {
		body := mustJSON(t, map[string]string{"error": text, "error_description": text})
		server := endpoint(t, response{http.StatusBadRequest, body})
		for name, dir := range map[string]string{
			"response": mounted(t, server, nil),
			"URL":      mounted(t, server, map[string]string{"cluster_token_url": text}),
		} {
			code, stdout, stderr := plugintest.Run(t, "token", "--from-directory", dir)
			hostile.CheckPrintable(t, stderr)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("With %s %q: exit code %d, stdout %q, stderr %q; want 1 and one line", name, text, code, stdout, stderr)
			}
		}
	}
}

// A program reads the token of --output=token, but a user can also see it.
func TestTokenOutputTokenRejectsOtherText(t *testing.T) {
	for _, text := range append(hostile.Texts, "=", "a=b", "a b", "ä") {
		server := endpoint(t, response{http.StatusOK, mustJSON(t, map[string]string{"access_token": accessToken + "%" + text})})
		code, stdout, stderr := plugintest.Run(t, "token", "--from-directory", mounted(t, server, nil), "-o", "token")
		hostile.CheckPrintable(t, stderr)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "'%'") || !strings.Contains(stderr, "RFC 6750") || !strings.Contains(stderr, server.URL) {
			t.Errorf("With %q: exit code %d, stdout %q, stderr %q; want an error with the character", text, code, stdout, stderr)
		}
	}
	for _, token := range []string{"ABCxyz019-._~+/", "YWI=", "YQ=="} {
		server := endpoint(t, response{http.StatusOK, mustJSON(t, map[string]string{"access_token": token})})
		if code, stdout, stderr := plugintest.Run(t, "token", "--from-directory", mounted(t, server, nil), "-o", "token"); code != 0 || stdout != token+"\n" {
			t.Errorf("Token %s: exit code %d, stdout %q, stderr %q", token, code, stdout, stderr)
		}
	}
}
