package untrusted_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"ä ö ü ß é 鍵 \U0001f512":     "ä ö ü ß é 鍵 \U0001f512",
		"a\x1b[31mb\nc\u009bd":       "a [31mb c d",
		"a\u202eb\u2066c":            "a b c",
		"a\u200bb\ufeffc\u2028d\x7f": "a b c d ",
		"a\x9bb":                     "a\ufffdb",
	} {
		if got := untrusted.Printable(text); got != want {
			t.Errorf("Printable(%q) = %q, want %q", text, got, want)
		}
	}
	for _, text := range hostile.Texts {
		hostile.CheckPrintable(t, untrusted.Printable(text))
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"":                         "''",
		"oidc:grace@example.com":   "oidc:grace@example.com",
		"system:serviceaccount:ns": "system:serviceaccount:ns",
		"--type=json":              "--type=json",
		"=ls":                      "'=ls'", // zsh replaces it with the path of ls
		"it's":                     `'it'\''s'`,
		"a b":                      "'a b'",
		"a'\n1\\":                  `$'a\047\0121\134'`,
	} {
		if got := untrusted.Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
}

// The shell passes each text as one unchanged argument and runs no part of it.
func TestShellReceivesQuotedWords(t *testing.T) {
	for _, text := range hostile.Texts {
		if quoted := untrusted.Quote(text); quoted != untrusted.Printable(quoted) {
			t.Errorf("Quote(%q) = %q, which isn't one printable line", text, quoted)
		}
		got := hostile.Run(t, "curl --user "+untrusted.Quote(text)+" "+untrusted.Quote("x"+text), "curl")
		want := [][]string{{"curl", "--user", hostile.Argument(text), "x" + hostile.Argument(text)}}
		testkit.Diff(t, "Arguments of "+untrusted.Quote(text), want, got)
	}
}

// A program reads the same text from JSON and YAML.
func TestEncodedTextIsEqual(t *testing.T) {
	want := []string{}
	for _, text := range hostile.Texts {
		want = append(want, strings.ToValidUTF8(text, "\ufffd"))
	}
	for name, format := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		"JSON": {untrusted.MarshalJSON, json.Unmarshal},
		"YAML": {untrusted.MarshalYAML, func(encoded []byte, value any) error { return yaml.Unmarshal(encoded, value) }},
	} {
		encoded := testkit.Value(format.marshal(want))(t)
		hostile.CheckPrintable(t, string(encoded))
		var got []string
		testkit.Do(t, format.unmarshal(encoded, &got))
		testkit.Diff(t, "Text decoded from "+name, want, got)
		if _, err := format.marshal(func() {}); err == nil {
			t.Errorf("A function is encoded as %s", name)
		}
	}
	if got, err := untrusted.MarshalYAML(map[string][]string{"a": {"<b>", "c: ä"}}); err != nil || string(got) != "a:\n- <b>\n- 'c: ä'\n" {
		t.Errorf("MarshalYAML() = %q, %v", got, err)
	}
}

func TestWriterMakesOutputPrintable(t *testing.T) {
	var out bytes.Buffer
	w := untrusted.NewWriter(untrusted.NewWriter(&out))
	if n, err := fmt.Fprintf(w, "one %s\ntwo\n", "\x1b[2J"); n != 13 || err != nil || out.String() != "one  [2J\ntwo\n" {
		t.Errorf("Write() = %d, %v, output %q", n, err, out.String())
	}
	for _, text := range hostile.Texts {
		fmt.Fprintln(w, text)
	}
	hostile.CheckPrintable(t, out.String())
	if untrusted.Raw(w) != &out || untrusted.Raw(&out) != &out {
		t.Error("Raw() is not the original writer")
	}
	file, err := os.Open(os.DevNull) // not writable
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprint(untrusted.NewWriter(file), "x"); err == nil {
		t.Error("The error of a write is lost")
	}
}
