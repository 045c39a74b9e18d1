package memory

// SetHistorySize limits the number of events that a watch can start from.
func (s *Store) SetHistorySize(n int) { s.historySize = n }
