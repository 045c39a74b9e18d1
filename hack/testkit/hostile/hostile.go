// Package hostile has text that an attacker could choose, and runs commands that contain it. It is
// for tests.
package hostile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// Texts are the texts of an attacker. Those that the shell runs create the file canary. The API
// accepts some of them as a client ID, scope, audience, subject, or name of a user, and some nowhere.
var Texts = []string{
	`';>canary;'`,
	`";>canary;"`,
	`';{eval,'>canary'};'`,
	`$(>canary)`,
	"`>canary`",
	`'$(>canary)'`,
	"'`>canary`'",
	`"$(>canary)"`,
	`;>canary`,
	`a;>canary;b`,
	`&&>canary`,
	`||>canary`,
	`|>canary`,
	`&>canary`,
	`>canary`,
	`\';>canary;\'`,
	`\`,
	`\\`,
	`\n\x1b[2J\u202e`,
	`'`,
	`'''"''`,
	`"`,
	`${HOME}$HOME$((1))`,
	`~/*?[a-z]{a,b}!!#`,
	`--output=canary`,
	`-ocanary`,
	`%s%n%1$s`,
	`<b>&amp;{{.}}</b>`,
	"a\n>canary\nb",
	"'\n>canary\n'",
	"a\r\tb\vc\f\b\a",
	"\x1b[2J\x1b]52;c;Y2FuYXJ5\x07",
	"'\x1b]0;$(>canary)\x1b\\'",
	"a\u009b31mb\u0085\u009d0;x\u009c",
	"a\x9b31m\xff",
	"a\x7f\x00b",
	"a\u202eb\u2066c\u2069\u200f\u061c",
	"bil\u200bl\u2060i\ufeffn\u00adg\u034f\u3164\ufe0f",
	"a\u2028b\u2029\U000e0041\U000e0001",
	"' \u202e$(>canary) \u2066'",
	"täst \U0001f512",
}

// Argument returns the text as a program receives it. No argument can contain NUL.
func Argument(text string) string { return strings.ReplaceAll(text, "\x00", "\ufffd") }

// CheckPrintable fails the test if output has a character, other than a line break, that controls the
// terminal or is invisible.
func CheckPrintable(t testing.TB, output string) {
	t.Helper()
	for i, r := range strings.ToValidUTF8(output, "\x00") {
		if r != '\n' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			t.Errorf("Output has the character %U after %q", r, output[max(0, i-100):i])
			return
		}
	}
}

// Run runs a command in a shell where each of the programs only records its arguments, and no other
// program exists. It returns the calls, each with the name of the program and its arguments. It fails
// the test if the command does anything else, has a syntax error, or has an unprintable character.
func Run(t testing.TB, command string, programs ...string) [][]string {
	t.Helper()
	CheckPrintable(t, command)
	var script strings.Builder
	for _, program := range programs {
		script.WriteString(program + `() { printf '%s\0' "$(($# + 1))" ` + program + ` "$@" >>"$RECORD"; }` + "\n")
	}
	script.WriteString(command + "\n")
	runIn(t, "sh", script.String()) // it may be a shell without dollar-single-quoted strings
	return runIn(t, "bash", script.String())
}

func runIn(t testing.TB, shell, script string) [][]string {
	t.Helper()
	dir := t.TempDir()
	record, cwd, file := filepath.Join(dir, "record"), filepath.Join(dir, "cwd"), filepath.Join(dir, "script")
	for _, path := range []string{cwd, filepath.Join(dir, "path")} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-n", file}, {file}} {
		cmd := exec.CommandContext(t.Context(), shell, args...)
		cmd.Dir, cmd.Env = cwd, []string{"PATH=" + filepath.Join(dir, "path"), "RECORD=" + record, "HOME=" + cwd}
		if output, err := cmd.CombinedOutput(); err != nil || len(output) > 0 {
			t.Errorf("%s fails (%v) and prints %q:\n%s", shell, err, output, script)
		}
	}
	if entries, err := os.ReadDir(cwd); err != nil || len(entries) > 0 {
		t.Errorf("%s runs a part of the text, which creates %v (%v):\n%s", shell, entries, err, script)
	}
	recorded, err := os.ReadFile(record)
	if err != nil {
		t.Errorf("%s calls no program: %v\n%s", shell, err, script)
	}
	return calls(t, recorded)
}

// calls parses the record: for each call the number of words, and the words.
func calls(t testing.TB, recorded []byte) [][]string {
	t.Helper()
	var calls [][]string
	words := strings.Split(string(bytes.TrimSuffix(recorded, []byte{0})), "\x00")
	for len(words) > 1 {
		n, err := strconv.Atoi(words[0])
		if err != nil || n >= len(words) {
			t.Fatalf("The record is damaged: %q", recorded)
		}
		calls = append(calls, words[1:n+1])
		words = words[n+1:]
	}
	return calls
}
