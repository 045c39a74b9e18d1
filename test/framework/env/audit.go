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

// Writes returns every request that has asked the API server so far to create, change
// or delete something, whoever sent it and whether or not it was allowed. Callers sort
// them out by user, user agent or object. It needs WithAuditLog.
func (e *Env) Writes(t testing.TB) []auditv1.Event {
	t.Helper()
	if e.AuditLog == "" {
		t.Fatal("Env.Writes needs env.WithAuditLog")
	}
	// A request is logged when it is completed, which may be just after its answer has
	// arrived. So a last request of our own has to be in the log before it counts.
	marker := "audit-marker-" + strings.ToLower(rand.String(10))
	key := client.ObjectKey{Namespace: "default", Name: marker}
	if err := e.Client.Get(t.Context(), key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Fatalf("Send the marker request for the audit log: %v", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		log, err := os.ReadFile(e.AuditLog)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Read the audit log: %v", err)
		}
		if bytes.Contains(log, []byte(marker)) {
			return writesIn(t, log)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("The audit log %s doesn't show a request that was answered", e.AuditLog)
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
			break // The last line is being written.
		}
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("Read the audit log: %v", err)
		}
		switch event.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			writes = append(writes, event)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("Read the audit log: %v", err)
	}
	return writes
}
