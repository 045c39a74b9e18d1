package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/realmkeeper/realmkeeper/docs"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

var full = audit.Event{
	Time: now, Action: audit.ActionToken, Outcome: audit.Granted, Reason: audit.ReasonBusy, Realm: "acme",
	ClientID: `a "<client>"`, ClientUID: "uid", SecretID: "a51436ac026b", Issuer: "github", Subject: "repo:acme/shop:ref:refs/heads/\u00fc", Source: netip.MustParseAddr("2001:db8::1"),
	Actor: "user@example.com", TokenID: "jti", Reused: true, Lost: 3, Suppressed: 4,
}

// sink is a writer that can block or fail.
type sink struct {
	mu    sync.Mutex
	text  bytes.Buffer
	err   error
	block chan struct{}
}

func (s *sink) Write(p []byte) (int, error) {
	if s.block != nil {
		<-s.block
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		n, _ := s.text.Write(p[:len(p)/2])
		return n, s.err
	}
	return s.text.Write(p)
}

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// events returns the events of complete lines and the number of partial lines.
func (s *sink) events(t *testing.T) (events []audit.Event, partial int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			partial++
			continue
		}
		events = append(events, e)
	}
	return events, partial
}

func open(out io.Writer) *audit.Log {
	return audit.Open(out, slog.New(slog.DiscardHandler), func() time.Time { return now })
}

func closeLog(t testing.TB, l *audit.Log) {
	t.Helper()
	testkit.Do(t, l.Close(t.Context()))
}

var compareAddresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestLines(t *testing.T) {
	out := &sink{}
	l := open(out)
	want := []audit.Event{full, {Time: now, Action: audit.ActionToken, Outcome: audit.Refused}}
	for range 5000 {
		want = append(want, full)
	}
	for _, e := range want {
		l.Write(e)
	}
	closeLog(t, l)
	got, partial := out.events(t)
	if diff := cmp.Diff(want, got, compareAddresses); diff != "" || partial > 0 || l.Lost() != 0 {
		t.Errorf("%d partial lines, %d lost events (-want +got):\n%.2000s", partial, l.Lost(), diff)
	}
}

// Clients choose values, and users read the log in a terminal.
func TestLinesArePrintable(t *testing.T) {
	out := &sink{}
	l := open(out)
	var want []audit.Event
	for _, text := range hostile.Texts {
		e := full
		e.ClientID = strings.ToValidUTF8(text, "\ufffd")
		want = append(want, e)
		l.Write(e)
	}
	closeLog(t, l)
	got, partial := out.events(t)
	if diff := cmp.Diff(want, got, compareAddresses); diff != "" || partial > 0 {
		t.Errorf("%d partial lines (-want +got):\n%s", partial, diff)
	}
	hostile.CheckPrintable(t, out.text.String())
}

// Events are written promptly, not only when the log is closed.
func TestLinesAreWrittenSoon(t *testing.T) {
	reader, writer := io.Pipe()
	l := open(writer)
	for range 3 {
		l.Write(full)
		var got audit.Event
		testkit.Do(t, json.NewDecoder(reader).Decode(&got))
	}
	closeLog(t, l)
}

// Write doesn't wait for a blocked sink. Lost events are counted and reported in a line.
func TestSlowSink(t *testing.T) {
	out := &sink{block: make(chan struct{})}
	l := open(out)
	const events = 100_000
	for range events {
		l.Write(full)
	}
	if l.Lost() == 0 || l.Lost() >= events {
		t.Errorf("%d of %d events are lost, want some but not all", l.Lost(), events)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	blocked := open(&sink{block: out.block})
	blocked.Write(full)
	if err := blocked.Close(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Close returned %v, want %v", err, context.Canceled)
	}
	lost := l.Lost()
	close(out.block)
	closeLog(t, l)
	got, _ := out.events(t)
	want := audit.Event{Time: now, Action: audit.ActionAudit, Outcome: audit.Failed, Reason: audit.ReasonLinesLost, Lost: lost}
	if i := slices.IndexFunc(got, func(e audit.Event) bool { return e.Action == audit.ActionAudit }); i < 0 || cmp.Diff(want, got[i], compareAddresses) != "" {
		t.Errorf("index of the line about lost events is %d of %d, want line %+v", i, len(got), want)
	}
	testkit.Diff(t, "lines and lost events", uint64(events), uint64(len(got))-1+lost)
}

// After a failing sink recovers, the log writes a line with the number of lost events and only
// complete lines.
func TestFailingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{err: errors.New("no space left on device")}
		var logged bytes.Buffer
		l := audit.Open(out, slog.New(slog.NewTextHandler(&logged, nil)), func() time.Time { return now })
		for range 10 {
			l.Write(full)
		}
		time.Sleep(time.Second) // until the log has also failed to write how many events are lost
		synctest.Wait()
		testkit.Diff(t, "lost events", uint64(10), l.Lost())
		out.fail(nil)
		l.Write(full)
		closeLog(t, l)
		got, partial := out.events(t)
		want := []audit.Event{full, {Time: now, Action: audit.ActionAudit, Outcome: audit.Failed, Reason: audit.ReasonLinesLost, Lost: 10}}
		if diff := cmp.Diff(want, got[max(0, len(got)-2):], compareAddresses); diff != "" || partial == 0 {
			t.Errorf("%d partial lines (-want +got):\n%s", partial, diff)
		}
		testkit.Diff(t, "how often the error is logged", 1, strings.Count(logged.String(), "no space left"))
	})
}

func TestOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for range 2 {
		l, finish, err := audit.OpenFile(path, slog.New(slog.DiscardHandler), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		l.Write(full)
		finish()
	}
	text := testkit.Value(os.ReadFile(path))(t)
	testkit.Diff(t, "lines of the file", 2, bytes.Count(text, []byte("\n")))
	info := testkit.Value(os.Stat(path))(t)
	testkit.Diff(t, "mode of the file", os.FileMode(0o600), info.Mode().Perm())
	if _, _, err := audit.OpenFile(filepath.Join(path, "none"), slog.New(slog.DiscardHandler), time.Now); err == nil {
		t.Error("opened a file below a file")
	}
}

// Without a path, there is no log. A nil log takes everything.
func TestOpenFileWithoutPath(t *testing.T) {
	l, finish, err := audit.OpenFile("", slog.New(slog.DiscardHandler), time.Now)
	if l != nil || err != nil {
		t.Errorf("log %v, error %v, want neither", l, err)
	}
	l.Write(full)
	closeLog(t, l)
	testkit.Diff(t, "lost events", uint64(0), l.Lost())
	finish()
}

// The schema describes exactly the members and values of the code, and docs/audit.md names each of
// them. It accepts others, because later versions can add some.
func TestSchema(t *testing.T) {
	schema := &spec.Schema{}
	testkit.Do(t, json.Unmarshal(docs.AuditSchema, schema))
	valid := func(line string) bool {
		var value any
		testkit.Do(t, json.Unmarshal([]byte(line), &value))
		return validate.AgainstSchema(schema, value, strfmt.Default) == nil
	}
	out := &sink{}
	l := open(out)
	l.Write(full)
	for _, reason := range audit.Reasons {
		l.Write(audit.Event{Time: now, Action: audit.ActionToken, Outcome: audit.Refused, Reason: reason, Actor: "user"})
	}
	for _, action := range audit.Actions {
		for _, outcome := range audit.Outcomes {
			l.Write(audit.Event{Time: now, Action: action, Outcome: outcome, Actor: "user"})
		}
	}
	closeLog(t, l)
	for line := range strings.Lines(out.text.String()) {
		if !valid(line) {
			t.Errorf("the schema rejects %s", line)
		}
	}
	for line, want := range map[string]bool{
		`{}`: false,
		`{"time":"2026-03-01T12:00:00Z","action":"token"}`:                                      false,
		`{"time":"soon","action":"token","outcome":"granted"}`:                                  false,
		`{"time":"2026-03-01T12:00:00Z","action":"","outcome":"granted"}`:                       false,
		`{"time":"2026-03-01T12:00:00Z","action":"token","outcome":"granted","reason":1}`:       false,
		`{"time":"2026-03-01T12:00:00Z","action":"token","outcome":"granted","later":"member"}`: true,
		`{"time":"2026-03-01T12:00:00Z","action":"later","outcome":"later","reason":"later"}`:   true,
	} {
		if valid(line) != want {
			t.Errorf("the schema accepts %s: %t, want %t", line, !want, want)
		}
	}

	words := []string{}
	for field := range reflect.TypeFor[audit.Event]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		words = append(words, name)
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("the schema has no member %s", name)
		}
	}
	testkit.Diff(t, "members of the schema", len(words), len(schema.Properties))
	sameEnum(t, schema, "action", audit.Actions, &words)
	sameEnum(t, schema, "outcome", audit.Outcomes, &words)
	sameEnum(t, schema, "reason", audit.Reasons, &words)
	for _, word := range words {
		if !bytes.Contains(docs.Audit, []byte("`"+word+"`")) {
			t.Errorf("docs/audit.md does not contain %s", word)
		}
	}
}

// sameEnum checks that the schema lists exactly these values for the member, and adds them to words.
func sameEnum[T ~string](t *testing.T, schema *spec.Schema, member string, values []T, words *[]string) {
	t.Helper()
	want := []any{}
	for _, value := range values {
		want = append(want, string(value))
		*words = append(*words, string(value))
	}
	testkit.Diff(t, member, want, schema.Properties[member].AnyOf[0].Enum)
}
