package portal_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// While the user types, the API server checks the form in a dry run.
func TestFormIsCheckedInDryRun(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	f.api.handle(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/apiclients") {
			return false
		}
		if r.URL.Query().Get("dryRun") != "All" {
			t.Errorf("Request %s is not a dry run", r.URL)
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"details":{"causes":[
			{"field":"metadata.name","message":"bad name"},{"field":"spec.clientId","message":"bad <client> ID"},{"field":"<nil>","message":"more"}]}}`)
		return true
	})
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	check := func(form url.Values) string {
		r := user.request(http.MethodPost, "/clients/check", form)
		r.Header.Set("Hx-Request", "true")
		return user.send(r).body
	}
	base := url.Values{"realm": {"acme"}, "namespace": {"team"}, "clientId": {"x"}}
	got := check(base)
	for _, want := range []string{`#name-problem"></div>`, `#clientId-problem"><bdi>bad &lt;client&gt; ID</bdi></div>`, `#lifetime-problem"></div>`} {
		if !strings.Contains(got, want) {
			t.Errorf("Response doesn't contain %q:\n%s", want, got)
		}
	}
	base.Set("name", "x")
	if got := check(base); !strings.Contains(got, `#name-problem"><bdi>bad name</bdi></div>`) {
		t.Errorf("Response doesn't have the problem of the name:\n%s", got)
	}
	base.Set("lifetime", "soon")
	if got := check(base); !strings.Contains(got, `#lifetime-problem"><bdi>The token lifetime must be a duration`) {
		t.Errorf("Response doesn't have the problem of the lifetime:\n%s", got)
	}
}
