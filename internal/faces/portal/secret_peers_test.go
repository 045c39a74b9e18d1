//go:build peers

package portal_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
)

// The interpreters run the snippets with a function that records the request in place of the one that
// sends it.
func TestScriptSnippetsSendExactClientID(t *testing.T) {
	tests := map[string]struct{ title, program, flag, harness string }{
		"Python": {"Python", "python3", "-c", `
import json, sys, types
def post(url, data, auth, timeout):
    sent.append([url, auth[0], auth[1]])
    return types.SimpleNamespace(raise_for_status=lambda: None, json=lambda: {"access_token": ""})
sent = []
sys.modules["requests"] = types.SimpleNamespace(post=post)
for code in json.load(sys.stdin):
    exec(code, {})
print(json.dumps(sent))`},
		"Node.js": {"Node.js", "node", "-e", `
const sent = [];
const run = Object.getPrototypeOf(async () => {}).constructor;
(async () => {
  for (const code of JSON.parse(require("fs").readFileSync(0))) {
    const fetch = async (url, init) => {
      const basic = init.headers.Authorization.slice("Basic ".length);
      sent.push([url, basic.slice(0, basic.lastIndexOf(":")), basic.slice(basic.lastIndexOf(":") + 1)]);
      return { json: async () => ({}) };
    };
    await new run("fetch", "btoa", code)(fetch, (s) => s);
  }
  console.log(JSON.stringify(sent));
})();`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var code []string
			var want, got [][]string
			for _, e := range examples(test.title) {
				hostile.CheckPrintable(t, e.code)
				code, want = append(code, e.code), append(want, []string{exampleEndpoint(e.id), e.id, exampleSecret})
			}
			input := testkit.Value(json.Marshal(code))(t)
			cmd := exec.CommandContext(t.Context(), test.program, test.flag, test.harness)
			cmd.Stdin, cmd.Dir = strings.NewReader(string(input)), t.TempDir()
			output, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			if err := json.Unmarshal(output, &got); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			testkit.Diff(t, "Requests", want, got)
		})
	}
}
