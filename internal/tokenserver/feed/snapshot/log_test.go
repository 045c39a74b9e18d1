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

	"github.com/realmkeeper/realmkeeper/hack/testkit"
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

// records is the content of a snapshot.
type records struct {
	snapshot.State
	Secrets []*corev1.Secret
}

// contents returns the records as sorted name=content strings, followed by the version.
func contents(r records) []string {
	var all []string
	for _, s := range r.Secrets {
		all = append(all, s.Name+"="+string(s.Data["record.json"]))
	}
	slices.Sort(all)
	return append(all, "version="+r.Version)
}

// open opens the log in a directory. The test fails if the log reports an error.
func open(t rapid.TB, dir string) (*snapshot.Log, records) {
	t.Helper()
	return openWith(dir, func(err error) { t.Error(err) })
}

// openFailing is like open, and returns the number of errors.
func openFailing(dir string) (log *snapshot.Log, found records, failures *int) {
	failures = new(int)
	log, found = openWith(dir, func(error) { *failures++ })
	return log, found, failures
}

func openWith(dir string, failed func(error)) (*snapshot.Log, records) {
	log, state := snapshot.Open(dir, failed)
	return log, read(log, state)
}

func read(log *snapshot.Log, state snapshot.State) records {
	r := records{State: state}
	log.Read(func(string) bool { return true }, func(s *corev1.Secret) { r.Secrets = append(r.Secrets, s) })
	return r
}

// replace saves a list.
func replace(log *snapshot.Log, version string, keep map[string]bool, secrets ...*corev1.Secret) {
	log.Begin()
	for _, s := range secrets {
		log.Add(s)
	}
	listed := snapshot.Listed{Version: version, Size: len(secrets)}
	if keep != nil {
		listed.Keep = func(name string) bool { return keep[name] }
	}
	log.Commit(listed)
}

// filled returns a log and its directory. The log contains a list of two records and an update to
// one of them.
func filled(t *testing.T) (dir string, log *snapshot.Log) {
	t.Helper()
	dir = t.TempDir()
	log, _ = open(t, dir)
	replace(log, "10", nil, secret("realm-1", "7", "one"), secret("client-2", "9", "two"))
	log.Write(secret("client-2", "11", "second"))
	return dir, log
}

func TestRestartRestoresLastState(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	tests := map[string]struct {
		change func(*snapshot.Log)
		want   []string
	}{
		"new list": {
			change: func(l *snapshot.Log) {
				replace(l, "20", nil, secret("realm-1", "15", "new"))
			},
			want: []string{"realm-1=new", "version=20"},
		},
		"new list of several batches": {
			change: func(l *snapshot.Log) {
				replace(l, "20", nil, secret("realm-1", "15", large), secret("realm-2", "16", large), secret("realm-3", "17", "new"))
			},
			want: []string{"realm-1=" + large, "realm-2=" + large, "realm-3=new", "version=20"},
		},
		"new list with an unreadable record": {
			change: func(l *snapshot.Log) {
				replace(l, "20", map[string]bool{"client-2": true}, secret("realm-1", "15", "new"))
			},
			want: []string{"client-2=second", "realm-1=new", "version=20"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir, log := filled(t)
			test.change(log)
			// Don't close the log, as if the process had been killed.
			_, records := open(t, dir)
			testkit.Diff(t, "restored records", test.want, contents(records))
			for _, s := range records.Secrets {
				if s.Namespace != "system" || s.CreationTimestamp.IsZero() {
					t.Errorf("%s has lost its namespace or creation time", s.Name)
				}
			}
		})
	}
}

// If the process is killed at any point while appending, the existing content remains intact.
func TestIncompleteFrameIsRemoved(t *testing.T) {
	dir, log := filled(t)
	path := filepath.Join(dir, "records")
	before := testkit.Value(os.ReadFile(path))(t)
	log.Write(secret("client-3", "12", "three"))
	after := testkit.Value(os.ReadFile(path))(t)
	for end := len(before); end < len(after); end++ {
		testkit.Do(t, os.WriteFile(path, after[:end], 0o600))
		reopened, records := open(t, dir)
		if diff := cmp.Diff([]string{"client-2=second", "realm-1=one", "version=11"}, contents(records)); diff != "" {
			t.Fatalf("truncated at %d (-want +got):\n%s", end, diff)
		}
		// The next write must overwrite the incomplete frame.
		reopened.Write(secret("client-4", "12", "four"))
		if _, records = open(t, dir); !slices.Contains(contents(records), "client-4=four") {
			t.Fatalf("truncated at %d: the next write is lost", end)
		}
	}
}

// If any byte is corrupted, the log never returns a record that wasn't written, and it saves the
// next list.
func TestDamageIsDetected(t *testing.T) {
	dir, _ := filled(t)
	path := filepath.Join(dir, "records")
	good := testkit.Value(os.ReadFile(path))(t)
	wrote := map[string]bool{"realm-1=one": true, "client-2=two": true, "client-2=second": true}
	for position := range good {
		damaged := slices.Clone(good)
		damaged[position] ^= 0x10
		testkit.Do(t, os.WriteFile(path, damaged, 0o600))
		log, found, failures := openFailing(dir)
		for _, content := range contents(found)[:len(found.Secrets)] {
			if !wrote[content] {
				t.Fatalf("with byte %d changed, the snapshot contains %q", position, content)
			}
		}
		before := *failures
		if replace(log, "30", nil, secret("realm-1", "30", "new")); *failures > before {
			t.Fatalf("with byte %d changed, Commit failed", position)
		}
		if _, records := open(t, dir); !slices.Contains(contents(records), "realm-1=new") {
			t.Fatalf("with byte %d changed, the new list is not saved", position)
		}
	}
}

func TestManyChangesDoNotFillTheVolume(t *testing.T) {
	dir, log := filled(t)
	large := strings.Repeat("x", 10_000)
	for n := range 1_000 {
		log.Write(secret("client-2", strconv.Itoa(100+n), large+strconv.Itoa(n)))
	}
	info := testkit.Value(os.Stat(filepath.Join(dir, "records")))(t)
	if info.Size() > 3<<20 {
		t.Errorf("the file has %d bytes after 10 MB of changes to 10 kB of records", info.Size())
	}
	testkit.Diff(t, "mode of the file with private keys", os.FileMode(0o600), info.Mode().Perm())
	_, records := open(t, dir)
	testkit.Diff(t, "what is found", []string{"client-2=" + large + "999", "realm-1=one", "version=1099"}, contents(records))
}

// If a change can't be written, the saved state is stale. It is deleted, and nothing is saved until
// the next list.
func TestFailedWriteDeletesSnapshot(t *testing.T) {
	dir, _ := filled(t)
	log, _, failures := openFailing(dir)
	tooLarge := secret("client-2", "12", strings.Repeat("x", 5<<20))
	if log.Write(tooLarge); *failures == 0 {
		t.Fatal("saved a record of 5 MiB")
	}
	if _, records := open(t, dir); len(records.Secrets) != 0 {
		t.Errorf("the stale state is still saved: %q", contents(records))
	}
	log.Write(secret("client-3", "13", "three"))
	if _, records := open(t, dir); len(records.Secrets) != 0 {
		t.Errorf("a single record was saved without a list: %q", contents(records))
	}
	replace(log, "20", nil, secret("client-3", "13", "three"))
	if _, records := open(t, dir); len(records.Secrets) != 1 {
		t.Error("the new list is not saved")
	}
}

// After any sequence of operations, the log restores the same records as a plain map that went
// through the same operations.
func TestRestartRestoresModel(t *testing.T) {
	parent, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(parent, strconv.Itoa(runs))
		testkit.Do(t, os.Mkdir(dir, 0o700))
		log, _ := open(t, dir)
		model := map[string]string{}
		version := 0
		names := rapid.SampledFrom([]string{"realm-1", "realm-2", "client-1", "client-2"})
		next := func() string { version++; return strconv.Itoa(version) }
		replace(log, next(), nil)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				name, content := names.Draw(t, "name"), rapid.StringN(0, 50_000, -1).Draw(t, "content")
				model[name] = content
				log.Write(secret(name, next(), content))
			},
			"remove": func(t *rapid.T) {
				name := names.Draw(t, "name")
				delete(model, name)
				log.Remove(secret(name, next(), ""))
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
				testkit.Diff(t, "restored records", want, contents(records))
			},
		})
	})
}

// A list that isn't complete never replaces the saved one.
func TestIncompleteListIsNotSaved(t *testing.T) {
	dir, _ := filled(t)
	log, _, failures := openFailing(dir)
	want := []string{"client-2=second", "realm-1=one", "version=11"}
	log.Begin()
	log.Add(secret("client-3", "12", "three"))
	if _, records := open(t, dir); !slices.Equal(contents(records), want) {
		t.Errorf("before the end of the list, the snapshot contains %q", contents(records))
	}
	log.Begin() // again, after the request failed
	log.Add(secret("client-4", "12", "four"))
	log.Write(secret("client-2", "12", "third"))
	log.Commit(snapshot.Listed{Version: "13", Size: 1})
	if _, records := open(t, dir); !slices.Equal(contents(records), []string{"client-4=four", "version=13"}) {
		t.Errorf("after the second list, the snapshot contains %q", contents(records))
	}
	if *failures > 0 {
		t.Error("the log reported an error")
	}
	for name, begin := range map[string]func(){
		"too few records": func() {
			log.Begin()
			log.Add(secret("client-5", "20", "five"))
		},
		"too large a record": func() {
			log.Begin()
			log.Add(secret("client-5", "20", strings.Repeat("x", 5<<20)))
			log.Add(secret("client-6", "20", "six"))
		},
		"no list": func() {},
	} {
		begin()
		before := *failures
		if log.Commit(snapshot.Listed{Version: "20", Size: 2}); *failures == before {
			t.Errorf("%s: saved", name)
		}
		if _, records := open(t, dir); len(records.Secrets) != 0 {
			t.Errorf("%s: the snapshot contains %q", name, contents(records))
		}
	}
}

// Records that were removed while the list was received aren't saved.
func TestRecordsRemovedFromList(t *testing.T) {
	dir, log := filled(t)
	log.Begin()
	for _, name := range []string{"client-3", "client-4", "client-4"} {
		log.Add(secret(name, "12", name))
	}
	log.Commit(snapshot.Listed{
		Version: "13", Size: 1, Contains: func(name string) bool { return name == "client-4" },
		Keep: func(name string) bool { return name == "client-2" },
	})
	if _, records := open(t, dir); !slices.Equal(contents(records), []string{"client-2=second", "client-4=client-4", "version=13"}) {
		t.Errorf("the snapshot contains %q", contents(records))
	}
}
