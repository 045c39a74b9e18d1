package install

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// HeldWrites are writes that a FaultProxy has received and not forwarded. They outlive their sender, like
// a write that an admission webhook delays.
type HeldWrites struct {
	forward http.Handler
	holds   func(r *http.Request, body []byte) bool

	mu       sync.Mutex
	released bool
	writes   []heldWrite
}

type heldWrite struct {
	request  *http.Request
	response chan *httptest.ResponseRecorder
}

// Hold holds the writes for which holds returns true until Release.
func (p *FaultProxy) Hold(holds func(r *http.Request, body []byte) bool) *HeldWrites {
	h := &HeldWrites{forward: p.forward, holds: holds}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, h)
	return h
}

// Arrived returns nil if a write is held.
func (h *HeldWrites) Arrived() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.writes) == 0 {
		return errors.New("no write is held")
	}
	return nil
}

// Release forwards the writes in the order of their arrival, also those of senders that have died, and
// returns the statuses of the responses. It holds no further writes.
func (h *HeldWrites) Release() (statuses []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	for _, write := range h.writes {
		response := httptest.NewRecorder()
		h.forward.ServeHTTP(response, write.request)
		write.response <- response
		statuses = append(statuses, response.Code)
	}
	h.writes = nil
	return statuses
}

// hold holds a write until Release. It reports whether it has sent the response.
func (p *FaultProxy) hold(w http.ResponseWriter, r *http.Request) bool {
	p.mu.Lock()
	held := slices.Clone(p.held)
	p.mu.Unlock()
	if len(held) == 0 || r.Method == http.MethodGet {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender died before it had sent the write
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	for _, h := range held {
		response, ok := h.add(r, body)
		if !ok {
			continue
		}
		select {
		case forwarded := <-response:
			maps.Copy(w.Header(), forwarded.Header())
			w.WriteHeader(forwarded.Code)
			_, _ = w.Write(forwarded.Body.Bytes()) // the sender may have disconnected
		case <-r.Context().Done():
		}
		return true
	}
	return false
}

func (h *HeldWrites) add(r *http.Request, body []byte) (response chan *httptest.ResponseRecorder, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released || !h.holds(r, body) {
		return nil, false
	}
	late := r.Clone(context.WithoutCancel(r.Context()))
	late.Body = io.NopCloser(bytes.NewReader(body))
	response = make(chan *httptest.ResponseRecorder, 1)
	h.writes = append(h.writes, heldWrite{late, response})
	return response, true
}
