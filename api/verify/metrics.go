package verify

import "time"

// Metrics are functions that a Verifier calls, such as to count in Prometheus. Each one is optional,
// must return quickly, and must be safe for concurrent use. Reason returns labels for errors.
type Metrics struct {
	// Verified is called for each token that is verified, and for each request. err is nil if it was
	// accepted.
	Verified func(err error)
	// Loaded is called after each attempt to load metadata, keys, or a status list from url.
	Loaded func(url string, duration time.Duration, err error)
	// Checked is called for each token that is checked in a status list, with the time since the list
	// was issued. Revocations are at most as old.
	Checked func(age time.Duration)
	// Unchecked is called for each token that StatusBestEffort accepts without a list.
	Unchecked func(err error)
}

func (m Metrics) verified(err error) {
	if m.Verified != nil {
		m.Verified(err)
	}
}

func (m Metrics) loaded(url string, duration time.Duration, err error) {
	if m.Loaded != nil {
		m.Loaded(url, duration, err)
	}
}

func (m Metrics) checked(age time.Duration) {
	if m.Checked != nil {
		m.Checked(age)
	}
}

func (m Metrics) unchecked(err error) {
	if m.Unchecked != nil {
		m.Unchecked(err)
	}
}
