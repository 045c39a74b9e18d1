package verify

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// maxLists is how many lists are kept. A realm publishes one, and up to 16 that have ended.
	maxLists = 17
	// listIdle is how long a list is loaded again after the last token that referred to it.
	listIdle = 5 * time.Minute
	// listInterval is the minimum time between two loads of a list.
	listInterval = time.Second
	// listDelay is the maximum duration of two loads. A list that is in use can be older than the pause between
	// loads by this time.
	listDelay = 2*loadTimeout + time.Second
	// maxListNumber is the maximum number of digits of a list's number.
	maxListNumber = 19
)

// statusLists are the lists that valid tokens refer to.
type statusLists struct {
	issuer string
	prefix string // of the URI of each list
	base   string // of the URL of each list
	skew   time.Duration
	now    func() time.Time
	life   *lifetime
	web    *source
	// keys are those that sign lists. They sign no tokens, so a token is never a list, and a list never a token
	// (RFC 8725 §3.12).
	keys *keySet

	mu    sync.Mutex
	lists map[string]*statusList
}

func newStatusLists(issuer string, options Options, life *lifetime, web *source) *statusLists {
	const path = "/oauth2/status/"
	s := &statusLists{
		issuer: issuer, prefix: issuer + path, base: issuer + path, skew: options.Skew, now: options.Now,
		life: life, web: web, lists: map[string]*statusList{},
	}
	if options.RealmURL != "" {
		s.base = options.RealmURL + path
	}
	s.keys = newKeySet(issuer, s.base+"jwks", options, life, web)
	return s
}

// check checks an entry of a list. The caller must have verified the token that refers to it, so that
// only the issuer decides which lists are loaded.
//
// Errors: ErrStatus, ErrRevoked, ErrListTooShort, ErrStatusUnavailable.
func (s *statusLists) check(ctx context.Context, uri string, index int) error {
	number, ok := strings.CutPrefix(uri, s.prefix)
	if !ok || number == "" || len(number) > maxListNumber || strings.Trim(number, "0123456789") != "" {
		return fmt.Errorf("%w: status list %q", ErrStatus, uri)
	}
	l := s.use(uri, number)
	current, err := l.get(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStatusUnavailable, err)
	}
	revoked, ok := current.revoked(index)
	if !ok {
		// The list can be older than the client.
		if current, err = l.reload(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrStatusUnavailable, err)
		}
		if revoked, ok = current.revoked(index); !ok {
			return ErrListTooShort
		}
	}
	s.web.metrics.checked(s.now().Sub(current.issuedAt))
	if revoked {
		return ErrRevoked
	}
	return nil
}

// wasRevoked reports whether an entry was INVALID in the last valid list, even if that has expired.
func (s *statusLists) wasRevoked(uri string, index int) bool {
	s.mu.Lock()
	l := s.lists[uri]
	s.mu.Unlock()
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return false
	}
	revoked, _ := l.current.revoked(index)
	return revoked
}

// use returns a list, which it creates if there is none. If there are too many, it drops the one that was
// least recently used.
func (s *statusLists) use(uri, number string) *statusList {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.lists[uri]
	if !ok {
		l = &statusList{statusLists: s, uri: uri, url: s.base + number, dropped: make(chan struct{})}
		l.flight = flight{life: s.life, load: l.load}
		if len(s.lists) >= maxLists {
			s.dropOldest()
		}
		s.lists[uri] = l
	}
	l.used = now
	return l
}

func (s *statusLists) dropOldest() {
	var oldest *statusList
	for _, l := range s.lists {
		if oldest == nil || l.used.Before(oldest.used) {
			oldest = l
		}
	}
	close(oldest.dropped)
	delete(s.lists, oldest.uri)
}

// idle reports whether no token referred to the list recently.
func (s *statusLists) idle(l *statusList) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().Sub(l.used) > listIdle
}

// statusList is one list, which is loaded again in the background as long as tokens refer to it.
type statusList struct {
	*statusLists

	uri, url string
	flight   flight
	used     time.Time     // guarded by statusLists
	dropped  chan struct{} // closed if other lists replaced it

	mu         sync.Mutex
	current    *list         // the last valid one; nil if there is none
	err        error         // of the last load
	pause      time.Duration // from the last load to the next one
	refreshing bool
}

// get returns the list. It waits for a load if there is no list, if the last load was too long ago because no token
// referred to the list, or if the list has expired since.
func (l *statusList) get(ctx context.Context) (*list, error) {
	now := l.now()
	age := l.flight.age(now)
	l.mu.Lock()
	recent := l.current != nil && age >= 0 && age < l.pause+listDelay && (l.err != nil || now.Before(l.current.expires))
	if !l.refreshing {
		l.refreshing = l.life.run(l.refresh)
	}
	l.mu.Unlock()
	if !recent {
		if err := wait(ctx, l.flight.start(now, listInterval)); err != nil {
			return nil, err
		}
	}
	return l.state()
}

// reload loads the list again, unless that was done in the last second, and returns it.
func (l *statusList) reload(ctx context.Context) (*list, error) {
	if err := wait(ctx, l.flight.start(l.now(), listInterval)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return l.state()
}

// state returns the last valid list unless it has expired.
func (l *statusList) state() (*list, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil && l.now().Before(l.current.expires) {
		return l.current, nil
	}
	switch {
	case l.err != nil:
		return nil, l.err
	case l.current != nil:
		return nil, ErrListExpired
	}
	return nil, errClosed
}

// refresh loads the list again and again until it is idle.
func (l *statusList) refresh(ctx context.Context) {
	for {
		if wait(ctx, l.flight.start(l.now(), listInterval)) != nil {
			return
		}
		l.mu.Lock()
		pause := l.pause
		l.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-l.dropped:
			return
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		l.refreshing = !l.idle(l)
		refreshing := l.refreshing
		l.mu.Unlock()
		if !refreshing {
			return
		}
	}
}

// load loads the list once. It never replaces a list by an older one.
func (l *statusList) load(ctx context.Context) {
	var loaded *list
	err := l.web.load(ctx, l.url, listDocument, func(body []byte) (err error) {
		loaded, err = parseList(ctx, string(body), l.issuer, l.uri, l.keys.find)
		if err == nil {
			err = l.checkTimes(loaded)
		}
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.pause = err, minTTL
	if err == nil {
		l.current, l.pause = loaded, loaded.ttl
	}
}

func (l *statusList) checkTimes(loaded *list) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch now := l.now(); {
	case !now.Before(loaded.expires):
		return ErrListExpired
	case loaded.issuedAt.After(now.Add(l.skew)):
		return ErrListNotYetValid
	case l.current != nil && loaded.issuedAt.Before(l.current.issuedAt):
		return ErrListOlder
	}
	return nil
}
