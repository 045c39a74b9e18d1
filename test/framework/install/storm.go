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
	// stormShare is of how many requests one fails in a storm.
	stormShare = 20
	// longestWatch bounds how long a watch lasts in a storm.
	longestWatch = 5 * time.Second
)

// storm has random requests fail.
type storm struct {
	mu     sync.Mutex
	random *rand.Rand // nil while it is calm
	failed int
	cut    int
}

// Storm makes one in twenty requests fail from now on, reads and writes alike, with 409, 429
// or 500, and cuts every watch after some random time. Connections that stand are cut.
func (p *FaultProxy) Storm(seed uint64) {
	p.storm.mu.Lock()
	p.storm.random = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It shall be the same in another run.
	p.storm.mu.Unlock()
	p.server.CloseClientConnections()
}

// Calm ends the storm, and returns how many requests failed and how many watches were cut.
func (p *FaultProxy) Calm() (failed, cut int) {
	p.storm.mu.Lock()
	defer p.storm.mu.Unlock()
	p.storm.random = nil
	return p.storm.failed, p.storm.cut
}

func (s *storm) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	status, lasts := s.roll(r)
	if status != 0 {
		refuse(w, status)
		return
	}
	if lasts > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), lasts)
		defer cancel()
		r = r.WithContext(ctx)
	}
	next.ServeHTTP(w, r)
}

// roll decides on a request: the status with which it fails, or how long it may last.
// Zeros let it be.
func (s *storm) roll(r *http.Request) (status int, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random == nil {
		return 0, 0
	}
	if s.random.IntN(stormShare) == 0 {
		s.failed++
		all := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError}
		return all[s.random.IntN(len(all))], 0
	}
	if r.URL.Query().Get("watch") == "" {
		return 0, 0
	}
	s.cut++
	return 0, time.Duration(1 + s.random.Int64N(int64(longestWatch)))
}

// refuse answers as the API server does when it can't do what it is asked.
func refuse(w http.ResponseWriter, status int) {
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	answer := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reasons[status], Code: int32(status), Message: "made up by a test",
	}
	_ = json.NewEncoder(w).Encode(answer) // who doesn't listen misses it
}
