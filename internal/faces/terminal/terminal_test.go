package terminal_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

func write(w *terminal.Writer) {
	w.Line(terminal.Green, "%s is Ready", "billing")
	w.Heading("KEYS")
	w.Table([]string{"ID", "STATE"}, []terminal.Row{{terminal.Plain, []string{"a", "Active"}}, {terminal.Yellow, []string{"longer", "Pending"}}})
	w.Paragraph(4, terminal.Faint, "The words of this paragraph do not fit into one line of the terminal, so it is wrapped.")
	w.Fields([][2]string{{"Realm", "acme"}, {"Unset", ""}, {"Client ID", "acme-apps.billing"}})
	w.Commands(6, []string{"kubectl " + strings.Repeat("x", 90)})
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w := terminal.NewWriter(&b)
	write(w)
	want := `billing is Ready

KEYS
  ID       STATE
  a        Active
  longer   Pending
    The words of this paragraph do not fit into one line of the terminal, so it
    is wrapped.
  Realm      acme
  Client ID  acme-apps.billing
      kubectl ` + strings.Repeat("x", 90) + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" || w.Err() != nil {
		t.Errorf("Error %v, output (-want +got):\n%s", w.Err(), diff)
	}
}

func TestFileIsNotATerminal(t *testing.T) {
	file := testkit.Value(os.Create(t.TempDir() + "/output"))(t)
	defer file.Close()
	write(terminal.NewWriter(file))
	if content, err := os.ReadFile(file.Name()); err != nil || bytes.Contains(content, []byte{0x1b}) {
		t.Errorf("File contains colors: %q, %v", content, err)
	}
}

func TestFirstErrorIsKept(t *testing.T) {
	file, err := os.Open(os.DevNull) // not writable
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := terminal.NewWriter(file)
	write(w)
	if w.Err() == nil {
		t.Error("Err() = nil, want the error of the write")
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"":                 nil,
		"one two":          {"one two"},
		"one two three":    {"one two", "three"},
		"longer-than-that": {"longer-than-that"},
		// A message must not control the terminal.
		"a\x1b[31mb\nc\u009bd": {"a [31mb c", "d"},
		"a\u202eb\u2066c":      {"a b c"}, // nor look like another one
		"ä ö ü ß é":            {"ä ö ü ß é"},
	} {
		testkit.Diff(t, text, want, terminal.Wrap(text, 9))
	}
}

// Commands and headings contain names from objects of other users, too.
func TestNothingControlsTheTerminal(t *testing.T) {
	var b bytes.Buffer
	w := terminal.NewWriter(&b)
	w.Heading("a\x1b[2J")
	w.Commands(2, []string{"kubectl \x1b[2J\rx"})
	if want := "\na [2J\n  kubectl  [2J x\n"; b.String() != want {
		t.Errorf("Output is %q, want %q", b.String(), want)
	}
}
