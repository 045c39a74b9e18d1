package observers_test

import (
	"os"
	"path/filepath"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// gitops is the directory that contains the files for users of GitOps tools.
var gitops = filepath.Join("..", "..", "..", "docs", "gitops")

// TestArgoConfigMapContainsScript checks that the ConfigMap that users apply contains the health
// script for both kinds, under the keys that Argo CD reads.
func TestArgoConfigMapContainsScript(t *testing.T) {
	script := readFile(t, "argocd", "health.lua")
	var configMap corev1.ConfigMap
	if err := yaml.UnmarshalStrict(readFile(t, "argocd", "argocd-cm.yaml"), &configMap); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Realm", "ApiClient"} {
		key := "resource.customizations.health." + v1beta1.GroupVersion.Group + "_" + kind
		if configMap.Data[key] != string(script) {
			t.Errorf("%s differs from health.lua:\n%s", key, configMap.Data[key])
		}
	}
}

// argoHealth is the result of a health script.
type argoHealth struct{ Status, Message string }

// argoHealthOf runs the health script the way Argo CD runs custom scripts. Libraries that can
// access the system are disabled, the object is in the global variable obj, and the script returns
// the health.
func argoHealthOf(t *testing.T, obj *unstructured.Unstructured) argoHealth {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	state.SetContext(t.Context())
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", luaValue(t, state, obj.Object))
	if err := state.DoString(string(readFile(t, "argocd", "health.lua"))); err != nil {
		t.Fatal(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %s, not a table", state.Get(-1).Type())
	}
	return argoHealth{result.RawGetString("status").String(), result.RawGetString("message").String()}
}

// luaValue converts a decoded JSON value to a Lua value.
func luaValue(t *testing.T, state *lua.LState, value any) lua.LValue {
	t.Helper()
	switch v := value.(type) {
	case nil:
		return lua.LNil
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(luaValue(t, state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(t, state, item))
		}
		return table
	}
	t.Fatalf("%T is not a JSON value", value)
	return nil
}

func readFile(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{gitops}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
