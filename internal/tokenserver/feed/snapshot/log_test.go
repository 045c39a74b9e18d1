package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
)

func secret(name, version, content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "system", ResourceVersion: version,
			CreationTimestamp: metav1.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		},
		Data: map[string][]byte{"record.json": []byte(content)},
	}
}

// contents are a snapshot's records as name=content, sorted, and its version.
func contents(records snapshot.Records) []string {
	var all []string
	for _, s := range records.Secrets {
		all = append(all, s.Name+"="+string(s.Data["record.json"]))
	}
	slices.Sort(all)
	return append(all, "version="+records.Version)
}

func open(t rapid.TB, dir string) (*snapshot.Log, snapshot.Records) {
	t.Helper()
	log, records, err := snapshot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return log, records
}

// filled returns the directory of a log with two records that were listed, one of which
// was changed since.
func filled(t *testing.T) (dir string, log *snapshot.Log) {
	t.Helper()
	dir = t.TempDir()
	log, _ = open(t, dir)
	listed := snapshot.Records{Version: "10", Secrets: []*corev1.Secret{secret("realm-1", "7", "one"), secret("client-2", "9", "two")}}
	if err := log.Replace(listed, nil); err != nil {
		t.Fatal(err)
	}
	if err := log.Write(secret("client-2", "11", "second")); err != nil {
		t.Fatal(err)
	}
	return dir, log
}

func TestRestartFindsTheLastState(t *testing.T) {
	tests := map[string]struct {
		change func(*snapshot.Log) error
		want   []string
	}{
		"nothing more": {
			change: func(*snapshot.Log) error { return nil },
			want:   []string{"client-2=second", "realm-1=one", "version=11"},
		},
		"a new record": {
			change: func(l *snapshot.Log) error { return l.Write(secret("client-3", "12", "three")) },
			want:   []string{"client-2=second", "client-3=three", "realm-1=one", "version=12"},
		},
		"a record gone": {
			change: func(l *snapshot.Log) error { return l.Remove(secret("client-2", "13", "")) },
			want:   []string{"realm-1=one", "version=13"},
		},
		"a new list": {
			change: func(l *snapshot.Log) error {
				return l.Replace(snapshot.Records{Version: "20", Secrets: []*corev1.Secret{secret("realm-1", "15", "new")}}, nil)
			},
			want: []string{"realm-1=new", "version=20"},
		},
		"a new list in which one can't be read": {
			change: func(l *snapshot.Log) error {
				return l.Replace(snapshot.Records{Version: "20", Secrets: []*corev1.Secret{secret("realm-1", "15", "new")}}, map[string]bool{"client-2": true})
			},
			want: []string{"client-2=second", "realm-1=new", "version=20"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir, log := filled(t)
			if err := test.change(log); err != nil {
				t.Fatal(err)
			}
			// Not closed: a killed process doesn't close anything either.
			_, records := open(t, dir)
			if diff := cmp.Diff(test.want, contents(records)); diff != "" {
				t.Errorf("what is found (-want +got):\n%s", diff)
			}
			for _, s := range records.Secrets {
				if s.Namespace != "system" || s.CreationTimestamp.IsZero() {
					t.Errorf("%s has lost its namespace or creation time", s.Name)
				}
			}
		})
	}
}

// Wherever a kill cuts what is being appended: what stood before is whole.
func TestTornEndIsCut(t *testing.T) {
	dir, log := filled(t)
	path := filepath.Join(dir, "records")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Write(secret("client-3", "12", "three")); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for end := len(before); end < len(after); end++ {
		if err := os.WriteFile(path, after[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		reopened, records := open(t, dir)
		if diff := cmp.Diff([]string{"client-2=second", "realm-1=one", "version=11"}, contents(records)); diff != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", end, diff)
		}
		// What is written next must not stand behind the rest of what was cut.
		if err := reopened.Write(secret("client-4", "12", "four")); err != nil {
			t.Fatal(err)
		}
		if _, records = open(t, dir); !slices.Contains(contents(records), "client-4=four") {
			t.Fatalf("cut at %d: what was written next is lost", end)
		}
	}
}

// Whichever byte changes: nothing is taken for a record that never was one, and the log
// goes on with the next list.
func TestDamageIsNoticed(t *testing.T) {
	dir, _ := filled(t)
	path := filepath.Join(dir, "records")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wrote := map[string]bool{"realm-1=one": true, "client-2=two": true, "client-2=second": true}
	for position := range good {
		damaged := slices.Clone(good)
		damaged[position] ^= 0x10
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		log, records, _ := snapshot.Open(dir)
		for _, content := range contents(snapshot.Records{Secrets: records.Secrets})[:len(records.Secrets)] {
			if !wrote[content] {
				t.Fatalf("with byte %d changed the snapshot holds %q", position, content)
			}
		}
		if err := log.Replace(snapshot.Records{Version: "30", Secrets: []*corev1.Secret{secret("realm-1", "30", "new")}}, nil); err != nil {
			t.Fatalf("with byte %d changed the log can't be used: %v", position, err)
		}
		if _, records := open(t, dir); !slices.Contains(contents(records), "realm-1=new") {
			t.Fatalf("with byte %d changed a new list isn't kept", position)
		}
	}
}

func TestManyChangesDoNotFillTheVolume(t *testing.T) {
	dir, log := filled(t)
	large := strings.Repeat("x", 10_000)
	for n := range 1_000 {
		if err := log.Write(secret("client-2", strconv.Itoa(100+n), large+strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "records"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 3<<20 {
		t.Errorf("after 10 MB of changes to 10 kB of records the file has %d bytes", info.Size())
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file with private keys has mode %s", info.Mode())
	}
	_, records := open(t, dir)
	if diff := cmp.Diff([]string{"client-2=" + large + "999", "realm-1=one", "version=1099"}, contents(records)); diff != "" {
		t.Errorf("what is found (-want +got):\n%s", diff)
	}
}

// Once a change could not be written, what is there is old: it goes, until the next list.
func TestFailedWriteLeavesNothing(t *testing.T) {
	dir, log := filled(t)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log, _ = open(t, dir)
	tooLarge := secret("client-2", "12", strings.Repeat("x", 5<<20))
	if err := log.Write(tooLarge); err == nil {
		t.Fatal("a record of 5 MiB is kept")
	}
	if _, records := open(t, dir); len(records.Secrets) != 0 {
		t.Errorf("an old state is left: %q", contents(records))
	}
	if err := log.Write(secret("client-3", "13", "three")); err != nil {
		t.Fatal(err)
	}
	if _, records := open(t, dir); len(records.Secrets) != 0 {
		t.Errorf("one record passes for all: %q", contents(records))
	}
	if err := log.Replace(snapshot.Records{Version: "20", Secrets: []*corev1.Secret{secret("client-3", "13", "three")}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, records := open(t, dir); len(records.Secrets) != 1 {
		t.Error("a new list isn't kept")
	}
}

// Whatever happens in whatever order: a restart finds what a map would hold.
func TestRestartFindsWhatAMapWouldHold(t *testing.T) {
	parent, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(parent, strconv.Itoa(runs))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		log, _ := open(t, dir)
		model := map[string]string{}
		version := 0
		names := rapid.SampledFrom([]string{"realm-1", "realm-2", "client-1", "client-2"})
		next := func() string { version++; return strconv.Itoa(version) }
		if err := log.Replace(snapshot.Records{Version: next()}, nil); err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				name, content := names.Draw(t, "name"), rapid.StringN(0, 200_000, -1).Draw(t, "content")
				model[name] = content
				if err := log.Write(secret(name, next(), content)); err != nil {
					t.Fatal(err)
				}
			},
			"remove": func(t *rapid.T) {
				name := names.Draw(t, "name")
				delete(model, name)
				if err := log.Remove(secret(name, next(), "")); err != nil {
					t.Fatal(err)
				}
			},
			"restart": func(t *rapid.T) { log, _ = open(t, dir) },
			"": func(t *rapid.T) {
				var want []string
				for name, content := range model {
					want = append(want, name+"="+content)
				}
				slices.Sort(want)
				want = append(want, fmt.Sprintf("version=%d", version))
				_, records := open(t, dir)
				if diff := cmp.Diff(want, contents(records)); diff != "" {
					t.Fatalf("what is found (-want +got):\n%s", diff)
				}
			},
		})
	})
}
