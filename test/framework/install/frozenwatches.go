package install

import (
	"context"
	"net/http"
	"path"
	"sync"
)

// FreezeWatches stops delivering the events of one resource, such as "realms", so that the
// program's cache becomes stale. The program can't notice it. Requests that are not watches still
// succeed. The returned function delivers the events and ends the freeze.
func (p *FaultProxy) FreezeWatches(resource string) (thaw func()) {
	p.frozen.mu.Lock()
	defer p.frozen.mu.Unlock()
	until := make(chan struct{})
	if p.frozen.until == nil {
		p.frozen.until = map[string]chan struct{}{}
	}
	p.frozen.until[resource] = until
	return sync.OnceFunc(func() {
		p.frozen.mu.Lock()
		defer p.frozen.mu.Unlock()
		delete(p.frozen.until, resource)
		close(until)
	})
}

// frozenWatches contains a channel for each resource whose watches are frozen.
type frozenWatches struct {
	mu    sync.Mutex
	until map[string]chan struct{}
}

// wrap returns a writer that waits while the watch in the request is frozen.
func (f *frozenWatches) wrap(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if r.URL.Query().Get("watch") == "" {
		return w
	}
	return &watchWriter{ResponseWriter: w, watches: f, resource: path.Base(r.URL.Path), done: r.Context()}
}

func (f *frozenWatches) wait(ctx context.Context, resource string) {
	f.mu.Lock()
	until := f.until[resource]
	f.mu.Unlock()
	if until == nil {
		return
	}
	select {
	case <-until:
	case <-ctx.Done():
	}
}

type watchWriter struct {
	http.ResponseWriter
	watches  *frozenWatches
	resource string
	done     context.Context //nolint:containedctx // It is the context of the request that the writer belongs to.
}

// Write waits while the watch is frozen.
func (w *watchWriter) Write(data []byte) (int, error) {
	w.watches.wait(w.done, w.resource)
	return w.ResponseWriter.Write(data)
}

// Unwrap allows http.ResponseController to flush.
func (w *watchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
