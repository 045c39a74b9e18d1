package provided

import "sigs.k8s.io/controller-runtime/pkg/reconcile"

// job is the request of an ApiClient for the hash of its provided secret.
type job struct {
	client               reconcile.Request
	secret, version, key string
	recorded             string
}

// jobs are the waiting jobs of one namespace: at most one for each client, in the order in which
// the clients first requested one.
type jobs struct {
	order    []reconcile.Request // may contain clients that have withdrawn
	byClient map[reconcile.Request]job
}

func (q *jobs) put(j job) {
	if _, waiting := q.byClient[j.client]; !waiting {
		q.order = append(q.order, j.client)
	}
	q.byClient[j.client] = j
}

// pop removes and returns the first job, or an empty one, and reports whether there are more.
func (q *jobs) pop() (first job, more bool) {
	if q == nil {
		return job{}, false
	}
	for len(q.order) > 0 && first.client == (reconcile.Request{}) {
		first = q.byClient[q.order[0]]
		q.order = q.order[1:]
	}
	delete(q.byClient, first.client)
	return first, len(q.byClient) > 0
}
