package tokenagent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tools/tokenagent"
)

// A reader that reads all the time sees whole tokens only.
func TestReaderSeesWholeTokens(t *testing.T) {
	file := tokenagent.File{Path: filepath.Join(t.TempDir(), "token"), Mode: 0o600, Format: tokenagent.FormatToken}
	expires := time.Now().Add(lifetime)
	tokens := []string{strings.Repeat("a", 900), strings.Repeat("b", 6144)}
	testkit.Do(t, file.Write(tokenagent.Token{Value: tokens[0], Expires: expires}))
	ctx, stop := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reads := 0
	reader.Go(func() {
		for ; ctx.Err() == nil; reads++ {
			content, err := os.ReadFile(file.Path)
			if got := string(content); err != nil || got != tokens[0] && got != tokens[1] {
				t.Errorf("a reader sees %d bytes: %v", len(got), err)
				return
			}
		}
	})
	for i := range 10_000 {
		testkit.Do(t, file.Write(tokenagent.Token{Value: tokens[i%2], Expires: expires}))
	}
	stop()
	reader.Wait()
	t.Logf("%d reads during 10,000 writes", reads)
	if left := testkit.Value(os.ReadDir(filepath.Dir(file.Path)))(t); len(left) != 1 {
		t.Errorf("other files remain: %v", left)
	}
}

func TestFormats(t *testing.T) {
	expires := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for format, want := range map[string]string{
		"token":           "a.b.c",
		"envoy-sds":       `{"resources":[{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret","generic_secret":{"secret":{"inline_string":"a.b.c"}},"name":"token"}]}`,
		"exec-credential": `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"expirationTimestamp":"2026-01-02T03:03:35Z","token":"a.b.c"}}`,
	} {
		file := tokenagent.File{Path: filepath.Join(t.TempDir(), "token"), Mode: 0o600, Format: testkit.Value(tokenagent.ParseFormat(format))(t)}
		testkit.Do(t, file.Write(tokenagent.Token{Value: "a.b.c", Expires: expires, Lifetime: lifetime}))
		testkit.Diff(t, format, want, string(testkit.Value(os.ReadFile(file.Path))(t)))
		if got := file.Expires(); !got.Equal(expires) {
			t.Errorf("%s: the file says that the token expires at %s, want %s", format, got, expires)
		}
	}
	if _, err := tokenagent.ParseFormat("yaml"); err == nil {
		t.Error("a format that doesn't exist is accepted")
	}
}

func TestCheck(t *testing.T) {
	now := time.Now()
	file := tokenagent.File{Path: filepath.Join(t.TempDir(), "token"), Mode: 0o600, Format: tokenagent.FormatToken}
	if err := file.Check(now); err == nil {
		t.Error("a missing file is accepted")
	}
	testkit.Do(t, file.Write(tokenagent.Token{Value: "a", Expires: now.Add(time.Second)}))
	if err := file.Check(now); err != nil {
		t.Error(err)
	}
	if err := file.Check(now.Add(time.Second)); err == nil {
		t.Error("a token that has expired is accepted")
	}
}

// A directory is never accepted as a token file, and the error says how to correct the path.
func TestDirectory(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	file := tokenagent.File{Path: dir, Mode: 0o600, Format: tokenagent.FormatToken}
	testkit.Do(t, os.Chtimes(dir, now, now.Add(lifetime)))
	if err := file.Check(now); err == nil || !file.Expires().IsZero() {
		t.Errorf("the check returns %v, and the directory expires at %s", err, file.Expires())
	}
	err := file.Write(tokenagent.Token{Value: "a", Expires: now.Add(lifetime)})
	if want := dir + " is a directory: --output is the path of a file in it"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// If the volume is full or read-only, the error says so, nothing else remains, and the last token stays.
func TestVolume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volume")
	file := tokenagent.File{Path: filepath.Join(dir, "token"), Mode: 0o600, Format: tokenagent.FormatToken}
	expires := time.Now().Add(lifetime)
	wantFailure := func(want, value string) {
		t.Helper()
		err := file.Write(tokenagent.Token{Value: value, Expires: expires})
		if err == nil || !strings.HasPrefix(err.Error(), "cannot write "+file.Path+": "+want+": the directory must be a writable volume") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	wantFailure("no such file or directory", "a")
	testkit.Do(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("this user cannot mount a volume: %v", err)
	}
	t.Cleanup(func() { testkit.Do(t, syscall.Unmount(dir, 0)) })
	testkit.Do(t, file.Write(tokenagent.Token{Value: "a", Expires: expires}))
	wantFailure("no space left on device", strings.Repeat("b", 16<<10))
	testkit.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	wantFailure("read-only file system", "c")
	if left := testkit.Value(os.ReadDir(dir))(t); len(left) != 1 {
		t.Errorf("other files remain: %v", left)
	}
	if content := testkit.Value(os.ReadFile(file.Path))(t); string(content) != "a" {
		t.Errorf("the file has %q, want the last token", content)
	}
}
