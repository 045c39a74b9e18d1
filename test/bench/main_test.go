package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// A benchmark that fails must not hide the rows after it.
func TestRowsAfterFailureAreMeasured(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"m_test.go": `package m

import "testing"

func BenchmarkFails(b *testing.B) { b.Fatal("no request got a response") }

func BenchmarkWorks(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(1, "ratio")
}
`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails := row{name: "fails", benchmark: "Fails", metric: "ratio"}
	works := row{name: "works", benchmark: "Works", metric: "ratio", target: target{atLeast: 0.5}}
	var out bytes.Buffer
	missed, failed := measureAll(t.Context(), root, options{rounds: 2, duration: time.Millisecond}, []row{fails, works}, &out)
	if len(missed) != 0 || len(failed) != 1 || failed[0].name != "fails" {
		t.Errorf("got %v missed and %v failed, want only the row fails as failed", missed, failed)
	}
	for _, want := range []string{`fails .* FAILED`, `no request got a response`, `works +1\.00 .* ok`} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("got output without %q:\n%s", want, out.Bytes())
		}
	}
}
