package localissuer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tools/localissuer"
)

// The files mean the same as those of kubectl apply.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"all/b.yaml":       "# only a comment\n---\nkind: Realm\napiVersion: v1\nmetadata: {name: b}\n---\n\n---\nkind: Realm\napiVersion: v1\nmetadata: {name: c}\n",
		"all/a.json":       `{"kind": "Realm", "apiVersion": "v1", "metadata": {"name": "a"}}`,
		"all/d.yml":        "kind: List\napiVersion: v1\nitems:\n- {kind: Realm, apiVersion: v1, metadata: {name: d}}\n- {kind: Secret, apiVersion: v1, metadata: {name: e}}\n",
		"all/e.yaml":       "\ufeffkind: RealmList\napiVersion: v1\nitems: [{metadata: {name: f}}]\n",
		"all/notes.txt":    "kind: Realm\napiVersion: v1\nmetadata: {name: text}\n",
		"all/below/f.yaml": "kind: Realm\napiVersion: v1\nmetadata: {name: below}\n",
		"invalid.yaml":     "kind: [",
		"kind.yaml":        "metadata: {name: a}\n",
		"label.yaml":       "kind: Namespace\napiVersion: v1\nmetadata: {name: a, labels: {tier: 1}}\n",
		"none/notes.txt":   "",
	} {
		path := filepath.Join(dir, name)
		testkit.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.Do(t, os.WriteFile(path, []byte(content), 0o600))
	}
	all := []string{"Realm a a.json", "Realm b b.yaml", "Realm c b.yaml", "Realm d d.yml", "Secret e d.yml", "Realm f e.yaml"}
	stdin := testkit.Value(os.Open(filepath.Join(dir, "all", "a.json")))(t)
	defer func(before *os.File) { os.Stdin = before; stdin.Close() }(os.Stdin)
	os.Stdin = stdin
	for name, test := range map[string]struct {
		names     []string
		recursive bool
		want      []string
		err       string
	}{
		"directory":       {names: []string{"all"}, want: all},
		"recursive":       {names: []string{"all"}, recursive: true, want: []string{all[0], all[1], all[2], "Realm below f.yaml", all[3], all[4], all[5]}},
		"file":            {names: []string{"all/notes.txt"}, want: []string{"Realm text notes.txt"}},
		"standard input":  {names: []string{"-"}, want: []string{"Realm a standard input"}},
		"in order":        {names: []string{"all/notes.txt", "all/a.json"}, want: []string{"Realm text notes.txt", all[0]}},
		"no such file":    {names: []string{"all", "other"}, err: `other" does not exist`},
		"no object files": {names: []string{"none"}, err: "has the extension .json or .yaml or .yml"},
		"invalid":         {names: []string{"invalid.yaml"}, err: "error parsing " + filepath.Join(dir, "invalid.yaml")},
		"no kind":         {names: []string{"kind.yaml"}, err: "'Kind' is missing"},
		"number as label": {names: []string{"label.yaml"}, err: "cannot unmarshal number into"},
	} {
		t.Run(name, func(t *testing.T) {
			f := localissuer.Files{Recursive: test.recursive}
			for _, name := range test.names {
				if name != "-" {
					name = filepath.Join(dir, name)
				}
				f.Names = append(f.Names, name)
			}
			got, err := localissuer.Read(f)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			testkit.Do(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}
