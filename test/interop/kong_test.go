package interop_test

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Kong doesn't run here, but the function that the guide gives it does, with as much of Kong
// around it as it asks for.
func testKongFunction(t *testing.T, p *place) {
	function := p.kongFunction(t)
	good := p.token(t)
	known := map[string]string{"X-Auth-Client-Id": p.clientID, "X-Auth-Realm": p.realm.Name, "X-Auth-Scope": scope}
	tests := map[string]struct {
		authorization string
		want          kongRequest
	}{
		"good":     {"Bearer " + good, kongRequest{passed: known}},
		"cut off":  {"Bearer " + good[:len(good)-8], kongRequest{status: 401, headers: map[string]string{"WWW-Authenticate": `Bearer error="invalid_token"`}}},
		"no token": {"", kongRequest{status: 401, headers: map[string]string{"WWW-Authenticate": "Bearer"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := kongRequest{authorization: tc.authorization}
			got.run(t, function, p.server.Client(t))
			tc.want.authorization = tc.authorization
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(kongRequest{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("the token service is away", func(t *testing.T) {
		got := kongRequest{authorization: "Bearer " + good}
		got.run(t, function, &http.Client{Transport: nobody{}})
		if got.status != http.StatusServiceUnavailable || got.passed != nil {
			t.Errorf("%+v", got)
		}
	})
}

// nobody is a network without anyone in it.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) { return nil, net.ErrClosed }

// kongFunction takes the function out of the guide's manifest.
func (p *place) kongFunction(t *testing.T) string {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways", "kong", "pre-function.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plugin unstructured.Unstructured
	if err := yaml.UnmarshalStrict(manifest, &plugin.Object); err != nil {
		t.Fatal(err)
	}
	functions, _, err := unstructured.NestedStringSlice(plugin.Object, "config", "access")
	if err != nil || len(functions) != 1 {
		t.Fatalf("the plugin has the functions %q: %v", functions, err)
	}
	return strings.ReplaceAll(functions[0], "https://api.example.com/acme", p.issuer)
}

// kongRequest is a request on its way through Kong.
type kongRequest struct {
	authorization string
	status        int               // what the caller gets; 0 when the request goes on
	headers       map[string]string // of that
	passed        map[string]string // the headers set for the API
}

func (r *kongRequest) run(t *testing.T, function string, client *http.Client) {
	t.Helper()
	state := lua.NewState()
	defer state.Close()
	state.SetContext(t.Context())
	table := func(functions map[string]lua.LGFunction) *lua.LTable {
		return state.SetFuncs(state.NewTable(), functions)
	}
	kong := table(nil)
	kong.RawSetString("log", table(map[string]lua.LGFunction{"err": func(*lua.LState) int { return 0 }}))
	kong.RawSetString("request", table(map[string]lua.LGFunction{"get_header": func(l *lua.LState) int {
		if r.authorization == "" {
			l.Push(lua.LNil)
		} else {
			l.Push(lua.LString(r.authorization))
		}
		return 1
	}}))
	service := table(nil)
	service.RawSetString("request", table(map[string]lua.LGFunction{"set_header": func(l *lua.LState) int {
		if r.passed == nil {
			r.passed = map[string]string{}
		}
		r.passed[l.CheckString(1)] = l.CheckString(2)
		return 0
	}}))
	kong.RawSetString("service", service)
	kong.RawSetString("response", table(map[string]lua.LGFunction{"exit": func(l *lua.LState) int {
		r.status, r.headers = l.CheckInt(1), stringsOf(l.CheckTable(3))
		return 0
	}}))
	state.SetGlobal("kong", kong)
	state.PreloadModule("resty.http", func(l *lua.LState) int {
		connection := table(map[string]lua.LGFunction{"request_uri": func(l *lua.LState) int { return requestURI(t, l, client) }})
		l.Push(table(map[string]lua.LGFunction{"new": func(l *lua.LState) int { l.Push(connection); return 1 }}))
		return 1
	})
	if err := state.DoString(function); err != nil {
		t.Fatal(err)
	}
}

// requestURI is what lua-resty-http has under that name: (self, url, options) to an answer,
// or nil and an error.
func requestURI(t *testing.T, l *lua.LState, client *http.Client) int {
	t.Helper()
	options := l.CheckTable(3)
	query := url.Values{}
	for name, value := range stringsOf(options.RawGetString("query")) {
		query.Set(name, value)
	}
	request, err := http.NewRequestWithContext(l.Context(), http.MethodGet, l.CheckString(2)+"?"+query.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range stringsOf(options.RawGetString("headers")) {
		request.Header.Set(name, value)
	}
	answer, err := client.Do(request)
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	defer answer.Body.Close()
	headers := l.NewTable()
	for name := range answer.Header {
		headers.RawSetString(name, lua.LString(answer.Header.Get(name)))
	}
	// Names of headers have any case there, as here with http.Header.
	headers.Metatable = l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{"__index": func(l *lua.LState) int {
		l.Push(headers.RawGetString(http.CanonicalHeaderKey(l.CheckString(2))))
		return 1
	}})
	result := l.NewTable()
	result.RawSetString("status", lua.LNumber(answer.StatusCode))
	result.RawSetString("headers", headers)
	l.Push(result)
	return 1
}

func stringsOf(value lua.LValue) map[string]string {
	table, ok := value.(*lua.LTable)
	if !ok {
		return nil
	}
	all := map[string]string{}
	table.ForEach(func(name, v lua.LValue) { all[name.String()] = v.String() })
	return all
}
