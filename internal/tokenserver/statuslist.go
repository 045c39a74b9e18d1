package tokenserver

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// statusLists serves the token status lists of realms (draft-ietf-oauth-status-list, section 8.1).
type statusLists struct {
	registry *registry.Registry
	// confirmed returns the time of the state of the records.
	confirmed func() time.Time
	// maxStaleness is how old that time can be before the server is not ready; zero if it always is.
	maxStaleness time.Duration
	now          func() time.Time

	mu   sync.Mutex
	last map[statusKey]*cachedList
}

// statusKey identifies a list. Its realm can be recreated with the same name.
type statusKey struct{ realmUID, uri string }

func (l *statusLists) mount(public publicDocuments) {
	public.mount("/{realm}"+oauth.StatusListPath+"{number}", l.ServeHTTP)
}

var (
	statusListContentType = []string{statuslist.MediaType}
	// A cache that served a list without asking again would delay revocations.
	revalidate     = []string{"public, no-cache"}
	acceptEncoding = []string{"Accept-Encoding"}
	gzipEncoding   = []string{"gzip"}
)

// ServeHTTP responds with a list.
func (l *statusLists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("time") { // The state at an earlier time isn't known (section 8.4).
		writeError(w, oauth.ErrHistory)
		return
	}
	realm, rejection := realmOf(l.registry, r.PathValue("realm"))
	if rejection != nil {
		writeError(w, rejection)
		return
	}
	list, ok := realm.StatusList(r.PathValue("number"))
	if !ok {
		writeError(w, oauth.ErrNotFound)
		return
	}
	signed, err := l.cached(realm, list).current(l, realm, list)
	if err != nil {
		writeError(w, oauth.ErrNoSigningKey)
		return
	}
	signed.write(w, r)
}

// cached returns the last signed version of a list, which may be empty. It forgets the lists that are no longer
// served.
func (l *statusLists) cached(realm *registry.Realm, list registry.StatusList) *cachedList {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := statusKey{realm.UID, list.URI}
	if last := l.last[key]; last != nil {
		return last
	}
	for other, last := range l.last {
		if !last.served(l.registry, other) {
			delete(l.last, other)
		}
	}
	last := &cachedList{name: realm.Name, number: list.Number}
	l.last[key] = last
	return last
}

// cachedList is the last version of a list that was signed.
type cachedList struct {
	name, number string // of the realm and the list

	mu       sync.Mutex
	builtAt  time.Time
	pause    time.Duration // until the next version
	basis    listBasis
	changeAt time.Time // when the entries change although the basis doesn't; before builtAt if they don't
	document *listDocument
}

// listBasis is what a list depends on.
type listBasis struct {
	realm   *registry.Realm
	changes uint64
	// confirmed is the time of the state of the records, in seconds.
	confirmed int64
}

// served reports whether a realm still serves the list.
func (s *cachedList) served(reg *registry.Registry, key statusKey) bool {
	realm := reg.Realm(s.name)
	if realm == nil || realm.UID != key.realmUID {
		return false
	}
	list, ok := realm.StatusList(s.number)
	return ok && list.URI == key.uri
}

// The time between two versions of a list while clients change. A version takes about a tenth of this time, so
// that many changes of a large list don't use up a core.
const (
	minBuildInterval = 250 * time.Millisecond
	maxBuildInterval = time.Second
)

// current returns the list for the current state. While clients change, it can be maxBuildInterval old.
func (s *cachedList) current(l *statusLists, realm *registry.Realm, list registry.StatusList) (*listDocument, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.now()
	basis := listBasis{realm: realm, changes: realm.StatusChanges(list), confirmed: l.confirmed().Unix()}
	recent := now.Sub(s.builtAt) < s.pause && !now.Before(s.builtAt)
	unchanged := basis == s.basis && (s.changeAt.Before(s.builtAt) || now.Before(s.changeAt))
	if s.document != nil && (recent || unchanged) {
		return s.document, nil
	}
	entries, changeAt := realm.StatusEntries(list, now)
	document, err := l.sign(realm, list, entries, basis.confirmed)
	if err != nil {
		return nil, err
	}
	s.builtAt, s.basis, s.changeAt, s.document = now, basis, changeAt, document
	s.pause = min(max(minBuildInterval, 10*l.now().Sub(now)), maxBuildInterval)
	return document, nil
}

// listClaims are the claims of a status list token (section 5.1).
type listClaims struct {
	Issuer     string `json:"iss"`
	Subject    string `json:"sub"`
	IssuedAt   int64  `json:"iat"`
	Expires    int64  `json:"exp"`
	TTL        int64  `json:"ttl"`
	StatusList struct {
		Bits int    `json:"bits"`
		List string `json:"lst"`
	} `json:"status_list"`
}

// sign returns the signed list. Token servers with the same records have lists with the same claims and the
// same ETag.
//
// Errors: oauth.ErrNoSigningKey, and those of signing.
func (l *statusLists) sign(realm *registry.Realm, list registry.StatusList, entries statuslist.Bits, confirmed int64) (*listDocument, error) {
	signer := realm.ListSigner()
	if signer == nil {
		return nil, oauth.ErrNoSigningKey
	}
	lifetime := statuslist.Lifetime(l.maxStaleness, list.TTL)
	claims := listClaims{
		Issuer: realm.Issuer, Subject: list.URI, IssuedAt: confirmed, Expires: confirmed + int64(lifetime/time.Second), TTL: int64(list.TTL / time.Second),
	}
	claims.StatusList.Bits, claims.StatusList.List = 1, entries.Encode()
	encoded, err := json.Marshal(claims)
	if err != nil {
		return nil, fmt.Errorf("encoding the status list %s: %w", list.URI, err)
	}
	signed, err := token.SignList(signer, encoded)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(encoded)
	return &listDocument{
		jwt: signed, compressed: compress(signed),
		// It is weak, because token servers sign the same claims differently.
		tag: []string{`W/"` + base64.RawURLEncoding.EncodeToString(digest[:15]) + `"`},
	}, nil
}

func compress(document []byte) []byte {
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	_, _ = w.Write(document) // A bytes.Buffer accepts everything.
	_ = w.Close()
	return compressed.Bytes()
}

// listDocument is a signed list.
type listDocument struct {
	jwt, compressed []byte
	tag             []string // the ETag header
}

func (d *listDocument) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header["Etag"] = d.tag
	header["Cache-Control"] = revalidate
	header["Vary"] = acceptEncoding
	if strings.Contains(r.Header.Get("If-None-Match"), d.tag[0]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header["Content-Type"] = statusListContentType
	body := d.jwt
	if acceptsGzip(r.Header) {
		header["Content-Encoding"] = gzipEncoding
		body = d.compressed
	}
	_, _ = w.Write(body) //nolint:gosec // It is a signed JWT, of a media type that browsers don't render.
}

// acceptsGzip reports whether a client accepts gzip (RFC 9110 §12.5.3). One that only accepts it with a
// weight gets the list without it.
func acceptsGzip(header http.Header) bool {
	for encoding := range strings.SplitSeq(strings.Join(header["Accept-Encoding"], ","), ",") {
		if strings.TrimSpace(encoding) == "gzip" {
			return true
		}
	}
	return false
}
