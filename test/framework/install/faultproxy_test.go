package install_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Programs behind the proxy are still running when it closes, and they reopen their watches as soon
// as the proxy ends them. None of these watches may keep the proxy open.
func TestFaultProxyClosesWhileClientsOpenWatches(t *testing.T) {
	const openers, limit = 16, 4 * time.Second
	apiServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	defer apiServer.Close()
	inst := &install.Installation{Env: &env.Env{Config: &rest.Config{Host: apiServer.URL}}}

	var (
		watching sync.WaitGroup
		began    time.Time
	)
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); watching.Wait() }()
	t.Run("proxy", func(t *testing.T) {
		proxy := inst.StartFaultProxy(t, install.Faults{})
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		var open sync.WaitGroup
		open.Add(openers)
		for range openers {
			watching.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					opened := make(chan struct{})
					watching.Go(func() { watch(ctx, client, proxy.URL, opened) })
					<-opened
					if n == 10 {
						open.Done()
					}
				}
			})
		}
		open.Wait()
		began = time.Now()
	})
	if took := time.Since(began); took > limit {
		t.Errorf("the proxy closed after %s, want at most %s", took, limit)
	}
}

// watch tries to open a watch, closes opened, and then reads until the watch ends.
func watch(ctx context.Context, client *http.Client, url string, opened chan<- struct{}) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		close(opened)
		return
	}
	response, err := client.Do(req)
	close(opened)
	if err != nil {
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
}
