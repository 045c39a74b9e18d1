package interop_test

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// testKongFunction runs the Lua function from the Kong guide without Kong. It provides the parts of
// Kong's API that the function uses.
func testKongFunction(t *testing.T, i *installation) {
	function := i.kongFunction(t)
	good := i.token(t)
	identity := map[string]string{"X-Auth-Client-Id": i.clientID, "X-Auth-Realm": i.realm.Name, "X-Auth-Scope": scope, "X-Auth-Subject": i.clientID}
	metadata := i.issuer + "/oauth2/resource-metadata/" + base64.RawURLEncoding.EncodeToString([]byte(audience))
	parameters := `resource_metadata="` + metadata + `", scope="` + scope + `"`
	tests := map[string]struct {
		authorization string
		want          kongRequest
	}{
		"valid token":     {"Bearer " + good, kongRequest{passed: identity}},
		"truncated token": {"Bearer " + good[:len(good)-8], kongRequest{status: 401, headers: map[string]string{"WWW-Authenticate": `Bearer error="invalid_token", ` + parameters}}},
		"no token":        {"", kongRequest{status: 401, headers: map[string]string{"WWW-Authenticate": "Bearer " + parameters}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := kongRequest{authorization: tc.authorization}
			got.run(t, function, i.server.Client(t))
			tc.want.authorization = tc.authorization
			if diff := gocmp.Diff(tc.want, got, gocmp.AllowUnexported(kongRequest{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	origin, method := map[string]string{"Origin": "https://shop.acme.example"}, map[string]string{"Access-Control-Request-Method": "POST"}
	both := map[string]string{"Origin": "https://shop.acme.example", "Access-Control-Request-Method": "POST"}
	for name, tc := range map[string]struct {
		method     string
		headers    map[string]string
		wantStatus int
	}{
		"preflight":                      {http.MethodOptions, both, 0},
		"OPTIONS":                        {http.MethodOptions, nil, 401},
		"OPTIONS without method":         {http.MethodOptions, origin, 401},
		"OPTIONS without origin":         {http.MethodOptions, method, 401},
		"GET with a preflight's headers": {http.MethodGet, both, 401},
	} {
		t.Run(name, func(t *testing.T) {
			got := kongRequest{method: tc.method, others: tc.headers}
			got.run(t, function, i.server.Client(t))
			var cleared []string
			if tc.wantStatus == 0 {
				cleared = slices.Sorted(maps.Keys(identity))
			}
			if got.status != tc.wantStatus || got.passed != nil || !slices.Equal(got.cleared, cleared) {
				t.Errorf("got %+v, want status %d and these headers removed: %v", got, tc.wantStatus, cleared)
			}
		})
	}
	t.Run("token service unavailable", func(t *testing.T) {
		got := kongRequest{authorization: "Bearer " + good}
		got.run(t, function, &http.Client{Transport: unreachable{}})
		if got.status != http.StatusServiceUnavailable || got.passed != nil {
			t.Errorf("got %+v, want status 503 and no headers for the API", got)
		}
	})
}

// unreachable is a transport that fails every request.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) { return nil, net.ErrClosed }

// kongFunction returns the Lua function from the guide's manifest.
func (i *installation) kongFunction(t *testing.T) string {
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
		t.Fatalf("the plugin has the functions %q, want one: %v", functions, err)
	}
	return strings.ReplaceAll(functions[0], "https://api.example.com/acme", i.issuer)
}

// kongRequest is a request to Kong and its outcome.
type kongRequest struct {
	authorization string
	method        string            // GET if empty
	others        map[string]string // other headers
	cleared       []string          // headers removed from the request to the API
	status        int               // status returned to the caller; 0 if Kong forwards the request
	headers       map[string]string // headers returned to the caller
	passed        map[string]string // headers set on the request to the API
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
	kong.RawSetString("request", table(map[string]lua.LGFunction{
		"get_header": func(l *lua.LState) int {
			value := r.others[l.CheckString(1)]
			if l.CheckString(1) == "Authorization" {
				value = r.authorization
			}
			if value == "" {
				l.Push(lua.LNil)
			} else {
				l.Push(lua.LString(value))
			}
			return 1
		},
		"get_method": func(l *lua.LState) int {
			l.Push(lua.LString(cmp.Or(r.method, http.MethodGet)))
			return 1
		},
	}))
	service := table(nil)
	service.RawSetString("request", table(map[string]lua.LGFunction{
		"set_header": func(l *lua.LState) int {
			if r.passed == nil {
				r.passed = map[string]string{}
			}
			r.passed[l.CheckString(1)] = l.CheckString(2)
			return 0
		},
		"clear_header": func(l *lua.LState) int {
			r.cleared = append(r.cleared, l.CheckString(1))
			return 0
		},
	}))
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

// requestURI implements lua-resty-http's request_uri. Its Lua arguments are self, url and options,
// and it returns a response, or nil and an error.
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
	response, err := client.Do(request)
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	defer response.Body.Close()
	headers := l.NewTable()
	for name := range response.Header {
		headers.RawSetString(name, lua.LString(response.Header.Get(name)))
	}
	// Like http.Header, lua-resty-http ignores case when it looks up header names.
	headers.Metatable = l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{"__index": func(l *lua.LState) int {
		l.Push(headers.RawGetString(http.CanonicalHeaderKey(l.CheckString(2))))
		return 1
	}})
	result := l.NewTable()
	result.RawSetString("status", lua.LNumber(response.StatusCode))
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
