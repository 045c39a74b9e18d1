// Package statuslist reads the token status lists of realms as strictly as the standard allows
// (draft-ietf-oauth-status-list).
package statuslist

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// algorithms are the signing algorithms that a realm can use.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.EdDSA, jose.RS256, jose.PS256}

// Status is the status of a token (section 7.1).
type Status byte

// Statuses of a list with one bit for each token.
const (
	Valid   Status = 0
	Invalid Status = 1
)

// String returns the name of the status in the registry of section 14.5.
func (s Status) String() string {
	if s == Valid {
		return "VALID"
	}
	return "INVALID"
}

// Reference is the list and the index to which a token refers (section 6.1); zero if it has none.
type Reference struct {
	URI   string `json:"uri"`
	Index int    `json:"idx"`
}

// Of returns the reference of an access token, without verifying the token.
func Of(t testing.TB, token string) Reference {
	t.Helper()
	var claims struct {
		Status struct {
			List Reference `json:"status_list"`
		} `json:"status"`
	}
	if err := install.Claims(token, &claims); err != nil {
		t.Fatal(err)
	}
	return claims.Status.List
}

// List is a verified list.
type List struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	TTL      int64  `json:"ttl"`
	List     struct {
		Bits int    `json:"bits"`
		List string `json:"lst"`
	} `json:"status_list"`

	// Entries are the uncompressed bytes of the list.
	Entries []byte `json:"-"`
	// Document is the signed list, and Response the headers with which it was served.
	Document string      `json:"-"`
	Response http.Header `json:"-"`
}

// Len returns the number of entries.
func (l *List) Len() int { return 8 * len(l.Entries) }

// Status returns the status of an index, which must be less than Len.
func (l *List) Status(index int) Status { return Status(l.Entries[index/8] >> (index % 8) & 1) }

// AllInvalid reports whether every entry is INVALID.
func (l *List) AllInvalid() bool {
	return len(l.Entries) > 0 && len(bytes.Trim(l.Entries, "\xff")) == 0
}

// Get gets the list at uri and verifies it with the keys for lists of the realm of a client with the given
// credentials.
func Get(ctx context.Context, httpClient *http.Client, uri string, credentials *corev1.Secret) (*List, error) {
	document, header, err := get(ctx, httpClient, uri)
	if err != nil {
		return nil, err
	}
	if got := header.Get("Content-Type"); got != "application/statuslist+jwt" {
		return nil, fmt.Errorf("%s has the type %q", uri, got)
	}
	body, _, err := get(ctx, httpClient, string(credentials.Data[v1beta1.SecretKeyIssuer])+"/oauth2/status/jwks")
	if err != nil {
		return nil, err
	}
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(body, &keys); err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	list := &List{Document: string(document), Response: header}
	if err := list.verify(keys); err != nil {
		return nil, err
	}
	if now := time.Now().Unix(); list.Subject != uri || list.Issuer != string(credentials.Data[v1beta1.SecretKeyIssuer]) ||
		list.IssuedAt > now || list.Expires <= now || list.TTL <= 0 || list.List.Bits != 1 {
		return nil, fmt.Errorf("the claims are %+v", list)
	}
	list.Entries, err = decode(list.List.List)
	return list, err
}

// verify verifies the document, and reads its claims.
func (l *List) verify(keys jose.JSONWebKeySet) error {
	signed, err := jose.ParseSignedCompact(l.Document, algorithms)
	if err != nil {
		return err
	}
	if typ := signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType]; typ != "statuslist+jwt" {
		return fmt.Errorf("the type is %v", typ)
	}
	payload, err := signed.Verify(keys)
	if err != nil {
		return fmt.Errorf("verifying the list: %w", err)
	}
	return json.Unmarshal(payload, l)
}

// get returns the body and the header of a response with status 200.
func get(ctx context.Context, httpClient *http.Client, url string) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s responded with %s: %s", url, response.Status, body)
	}
	return body, response.Header, err
}

// decode returns the bytes of a list (section 4.1).
func decode(encoded string) ([]byte, error) {
	compressed, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	r, err := zlib.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Await waits until the list of every token server has the given status at the reference.
func Await(t testing.TB, inst *install.Installation, credentials *corev1.Secret, reference Reference, want Status) {
	t.Helper()
	AwaitList(t, inst, credentials, reference.URI, func(l *List) error {
		if reference.Index >= l.Len() || l.Status(reference.Index) != want {
			return fmt.Errorf("index %d of %d is not %s", reference.Index, l.Len(), want)
		}
		return nil
	})
}

// AwaitEnded waits until every entry of the list is INVALID at every token server.
func AwaitEnded(t testing.TB, inst *install.Installation, credentials *corev1.Secret, uri string) {
	t.Helper()
	AwaitList(t, inst, credentials, uri, func(l *List) error {
		if !l.AllInvalid() {
			return fmt.Errorf("some of its entries are VALID: %x", l.Entries)
		}
		return nil
	})
}

// AwaitList waits until a condition holds for the list of every token server.
func AwaitList(t testing.TB, inst *install.Installation, credentials *corev1.Secret, uri string, condition func(*List) error) {
	t.Helper()
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, "the list "+uri+" at "+s.Name, func() error {
			list, err := Get(t.Context(), httpClient, uri, credentials)
			if err != nil {
				return err
			}
			return condition(list)
		})
	}
}
