package usage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
)

const (
	namespace = "records"
	server    = "realmkeeper-token-server-7d9c-x2x4z"
	client    = types.UID("5c9e2c5e-4d3c-4f0e-9f43-7d1c4b8e2a10")
)

func report(t *testing.T) *usage.Report {
	t.Helper()
	r := &usage.Report{Server: server, Lost: at(9, 30)}
	r.Add(client, usage.Credential{Type: usage.Secret, ID: "a51436ac026b"}, at(10, 0))
	r.Add(client, usage.Credential{Type: usage.PublicKey, ID: "keys/2026-03"}, at(11, 0))
	r.Add("another", usage.Credential{Type: usage.Identity, ID: "billing"}, at(10, 0))
	r.Add("another", usage.Credential{Type: usage.Identity, ID: "github"}, at(10, 0))
	return r
}

func at(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }

func configMap(t *testing.T, r *usage.Report) *corev1.ConfigMap {
	t.Helper()
	data := testkit.Value(r.Encode())(t)
	return usage.ConfigMap(namespace, r.Server, 3, data)
}

func TestParseReturnsWhatWasEncoded(t *testing.T) {
	r := report(t)
	parsed := testkit.Value(usage.Parse(configMap(t, r)))(t)
	testkit.Diff(t, "report", r, parsed)
}

// Uses up to the moment of a loss may be missing, so its time must not be rounded down.
func TestLostIsRoundedUp(t *testing.T) {
	for name, r := range map[string]usage.Report{
		"whole second": {Server: server, Lost: at(9, 30)},
		"fraction":     {Server: server, Lost: at(9, 30).Add(-time.Second + 1)},
	} {
		parsed, err := usage.Parse(configMap(t, &r))
		if err != nil || !parsed.Lost.Equal(at(9, 30)) {
			t.Errorf("%s: got %v, %v; want %s", name, parsed, err, at(9, 30))
		}
	}
}

func TestParseRejects(t *testing.T) {
	for name, change := range map[string]func(*corev1.ConfigMap){
		"no data":                func(cm *corev1.ConfigMap) { cm.Data = nil },
		"damaged JSON":           func(cm *corev1.ConfigMap) { cm.Data[usage.DataKey] = cm.Data[usage.DataKey][:40] },
		"another schema":         replace(`"schemaVersion":1`, `"schemaVersion":2`),
		"another server":         replace(server, "another"),
		"a name of another kind": func(cm *corev1.ConfigMap) { cm.Name = "token-server-" + server },
		"a number out of range":  func(cm *corev1.ConfigMap) { cm.Name = usage.Name(server, usage.MaxReports) },
		"a number with a zero":   func(cm *corev1.ConfigMap) { cm.Name = "token-server-" + server + "-usage-03" },
		"an unknown type":        replace("secret/", "password/"),
		"an empty ID":            replace("a51436ac026b", ""),
		"a long ID":              replace("a51436ac026b", strings.Repeat("a", usage.MaxIDLength+1)),
		"a negative time":        replace("1772359200", "-1"),
		"a negative loss":        replace(`"lost":`, `"lost":-`),
		"too many clients":       replace("}}", "}"+entries(",\"%x\":{\"secret/a\":1}", 20_000)+"}"),
		"too many credentials":   replace("}}", entries(",\"secret/%x\":1", 100)+"}}"),
		"too much data":          replace("}}", "}}"+strings.Repeat(" ", usage.MaxSize)),
	} {
		t.Run(name, func(t *testing.T) {
			cm := configMap(t, report(t))
			change(cm)
			if _, err := usage.Parse(cm); !errors.Is(err, usage.ErrInvalid) {
				t.Errorf("got error %v, want %v", err, usage.ErrInvalid)
			}
		})
	}
}

func replace(old, by string) func(*corev1.ConfigMap) {
	return func(cm *corev1.ConfigMap) {
		changed := strings.ReplaceAll(cm.Data[usage.DataKey], old, by)
		if changed == cm.Data[usage.DataKey] {
			panic("nothing to replace: " + old)
		}
		cm.Data[usage.DataKey] = changed
	}
}

// entries returns numbered entries of a JSON object, each with a comma before it.
func entries(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func TestAddKeepsTheLatestUse(t *testing.T) {
	secret := usage.Credential{Type: usage.Secret, ID: "a"}
	var r usage.Report
	for _, hour := range []int{10, 12, 11} {
		r.Add(client, secret, at(hour, 0))
	}
	if got := r.Uses[client][secret]; !got.Equal(at(12, 0)) {
		t.Errorf("got %s, want the latest use", got)
	}
}

func TestServerOf(t *testing.T) {
	for name, want := range map[string]string{
		usage.Name("a", 0):                          "a",
		usage.Name("a-usage-0", usage.MaxReports-1): "a-usage-0",
		"token-server--usage-0":                     "",
		"token-server-a-usage-":                     "",
		"a-usage-0":                                 "",
	} {
		if got, ok := usage.ServerOf(name); got != want || ok != (want != "") {
			t.Errorf("ServerOf(%s) = %q, %t; want %q", name, got, ok, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("token-server-a-usage-0", `{"schemaVersion":1,"server":"a","uses":{"u":{"secret/a":1772359200}}}`)
	f.Fuzz(func(t *testing.T, name, data string) {
		cm := usage.ConfigMap(namespace, "", 0, data)
		cm.Name = name
		r, err := usage.Parse(cm)
		if err != nil {
			return
		}
		again := testkit.Value(usage.Parse(configMap(t, r)))(t)
		testkit.Diff(t, "report", r, again)
	})
}
