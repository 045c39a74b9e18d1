package token

// Len returns the number of remembered tokens.
func (m *Memory) Len() int {
	n := len(m.newer)
	for id := range m.older {
		if m.newer[id] == nil {
			n++
		}
	}
	return n
}
