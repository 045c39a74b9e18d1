package portal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
)

// allInClientIDs are all characters that a client ID can have.
const allInClientIDs = "!\"#$&'(),-./0123456789;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// example is the code in a language that the portal shows for a client ID.
type example struct{ id, code string }

const exampleSecret = "rk_canary"

func exampleEndpoint(id string) string { return "https://api.example.com/acme?" + id }

func examples(title string) []example {
	var all []example
	for _, id := range append(hostile.Texts, allInClientIDs) {
		id = strings.ToValidUTF8(id, "\ufffd")
		c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "123", Name: "true"}, Spec: v1beta1.ApiClientSpec{ClientID: id}}
		curl, others := portal.Snippets(exampleEndpoint(id), c, exampleSecret)
		if title == "curl" {
			all = append(all, example{id, curl})
		}
		for _, other := range others {
			if other.Title == title {
				all = append(all, example{id, other.Text})
			}
		}
	}
	return all
}

// A user pastes the command that the portal shows into a shell. Another user may have chosen the client
// ID.
func TestCurlCommandRunsNoPartOfClientID(t *testing.T) {
	var commands strings.Builder
	var want [][]string
	for _, e := range examples("curl") {
		id := hostile.Argument(e.id)
		commands.WriteString(e.code + "\n")
		want = append(want, []string{"curl", "--user", id + ":" + exampleSecret, "--data", "grant_type=client_credentials", exampleEndpoint(id)})
	}
	testkit.Diff(t, "Arguments", want, hostile.Run(t, commands.String(), "curl"))
}

func TestGoSnippetHasExactClientID(t *testing.T) {
	for _, e := range examples("Go") {
		hostile.CheckPrintable(t, strings.ReplaceAll(e.code, "\t", " "))
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+e.code+"}", 0)
		if err != nil {
			t.Errorf("Snippet of %q: %v", e.id, err)
			continue
		}
		var got []string
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Error(err)
				}
				got = append(got, value)
			}
			return true
		})
		testkit.Diff(t, "Strings of "+e.code, []string{e.id, exampleSecret, exampleEndpoint(e.id)}, got)
	}
}

func TestKubernetesSecretSnippetHasExactValues(t *testing.T) {
	for _, e := range examples("Kubernetes Secret") {
		hostile.CheckPrintable(t, e.code)
		var got any
		if err := yaml.UnmarshalStrict([]byte(e.code), &got); err != nil {
			t.Errorf("Snippet of %q: %v", e.id, err)
			continue
		}
		want := map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
			// Names that look like a number or a Boolean are strings.
			"metadata":   map[string]any{"name": "true", "namespace": "123"},
			"stringData": map[string]any{"client_id": e.id, "client_secret": exampleSecret, "token_url": exampleEndpoint(e.id)},
		}
		testkit.Diff(t, "Object of "+e.code, want, got)
	}
}
