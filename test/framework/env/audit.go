package env

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writes returns all requests so far that tried to create, change or delete an object, including
// those that were denied. It includes the requests of all users, so callers filter by user, user
// agent or object. It requires WithAuditLog.
func (e *Env) Writes(t testing.TB) []auditv1.Event {
	t.Helper()
	if e.AuditLog == "" {
		t.Fatal("Env.Writes requires env.WithAuditLog")
	}
	// The API server logs a request when it completes, possibly just after it sent the response. Once
	// the log contains this marker request, it also contains all earlier requests.
	marker := "audit-marker-" + strings.ToLower(rand.String(10))
	key := client.ObjectKey{Namespace: "default", Name: marker}
	if err := e.Client.Get(t.Context(), key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Fatalf("Failed to send the marker request for the audit log: %v", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		log, err := os.ReadFile(e.AuditLog)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Failed to read the audit log: %v", err)
		}
		if bytes.Contains(log, []byte(marker)) {
			return writesIn(t, log)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("The audit log %s does not contain a completed request", e.AuditLog)
		}
	}
}

func writesIn(t testing.TB, log []byte) []auditv1.Event {
	t.Helper()
	var writes []auditv1.Event
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.HasSuffix(lines.Bytes(), []byte("}")) {
			break // the last line is incomplete
		}
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("Failed to read the audit log: %v", err)
		}
		switch event.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			writes = append(writes, event)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("Failed to read the audit log: %v", err)
	}
	return writes
}
