package interop_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// startServer starts a program and waits until it responds at the URL, with any status. It stops the program
// after the test, and logs the end of its log if the test failed.
func startServer(t *testing.T, command process.Command, client *http.Client, method, url string) {
	t.Helper()
	running, err := process.Start(command)
	if err != nil {
		t.Fatalf("Failed to start %s; run `make peers` to install it: %v", command.Name, err)
	}
	t.Cleanup(func() {
		if err := running.Stop(10 * time.Second); err != nil {
			t.Errorf("Failed to stop %s: %v", command.Name, err)
		}
		if t.Failed() {
			t.Logf("End of the log of %s:\n%s", command.Name, running.LogTail())
		}
	})
	err = running.Await(t.Context(), func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}
