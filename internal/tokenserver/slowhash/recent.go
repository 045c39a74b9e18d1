package slowhash

// generationSize is the size of each of the two generations of a table.
const generationSize = 8192

// recent is a table of the most recently used fingerprints: at least the last 8,192, at most 16,384.
// When newer is full, it replaces older, and the previous contents of older are dropped. The zero
// value is empty.
type recent[V any] struct {
	newer, older map[fingerprint]V
}

// get returns the value of a fingerprint and marks it as used.
func (r *recent[V]) get(id fingerprint) (V, bool) {
	if v, ok := r.newer[id]; ok {
		return v, true
	}
	v, ok := r.older[id]
	if ok {
		r.set(id, v)
	}
	return v, ok
}

func (r *recent[V]) set(id fingerprint, v V) {
	if r.newer == nil || len(r.newer) >= generationSize {
		r.newer, r.older = map[fingerprint]V{}, r.newer
	}
	r.newer[id] = v
}

func (r *recent[V]) remove(id fingerprint) {
	delete(r.newer, id)
	delete(r.older, id)
}
