package install

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// failureRate is the average number of requests per injected failure.
	failureRate = 20
	// longestWatch is the maximum duration of a watch.
	longestWatch = 5 * time.Second
)

// randomFaults makes random requests fail.
type randomFaults struct {
	mu     sync.Mutex
	random *rand.Rand // nil if no faults are injected
	failed int
	cut    int
}

// StartRandomFaults makes one in twenty requests fail with 409, 429 or 500, and ends every watch
// after a random time. It closes existing connections.
func (p *FaultProxy) StartRandomFaults(seed uint64) {
	p.random.mu.Lock()
	p.random.random = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // The same seed must give the same faults.
	p.random.mu.Unlock()
	p.server.CloseClientConnections()
}

// StopRandomFaults stops the faults and returns how many requests failed and how many watches ended
// early.
func (p *FaultProxy) StopRandomFaults() (failed, cut int) {
	p.random.mu.Lock()
	defer p.random.mu.Unlock()
	p.random.random = nil
	return p.random.failed, p.random.cut
}

func (f *randomFaults) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	status, lasts := f.roll(r)
	if status != 0 {
		reject(w, status)
		return
	}
	if lasts > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), lasts)
		defer cancel()
		r = r.WithContext(ctx)
	}
	next.ServeHTTP(w, r)
}

// roll returns the status with which a request must fail or the time after which it must end. If
// both are zero, the request is forwarded unchanged.
func (f *randomFaults) roll(r *http.Request) (status int, lasts time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random == nil {
		return 0, 0
	}
	if f.random.IntN(failureRate) == 0 {
		f.failed++
		all := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError}
		return all[f.random.IntN(len(all))], 0
	}
	if r.URL.Query().Get("watch") == "" {
		return 0, 0
	}
	f.cut++
	return 0, time.Duration(1 + f.random.Int64N(int64(longestWatch)))
}

// reject sends the error response that the API server would send.
func reject(w http.ResponseWriter, status int) {
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	response := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reasons[status], Code: int32(status), Message: "injected by a test",
	}
	_ = json.NewEncoder(w).Encode(response) // the client may have disconnected
}
