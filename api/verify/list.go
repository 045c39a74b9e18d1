package verify

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

const (
	listType      = "statuslist+jwt"
	listMediaType = "application/" + listType

	// maxList is the size of 2^20 entries in bytes.
	maxList = 1 << 20 / 8
	// maxListResponse is more than a list of this size needs that can't be compressed, twice in base64.
	maxListResponse = 256 << 10

	minTTL = 5 * time.Second
	maxTTL = time.Hour
	// maxListAge limits how long a list can be used, whatever it says.
	maxListAge = 24 * time.Hour
)

// list is a status list whose signature is valid (draft-ietf-oauth-status-list §5.1).
type list struct {
	bits     []byte
	issuedAt time.Time
	expires  time.Time
	ttl      time.Duration
}

// revoked reports whether an entry is INVALID. It reports false for ok if there is no such entry.
func (l *list) revoked(index int) (revoked, ok bool) {
	if index < 0 || index/8 >= len(l.bits) {
		return false, false
	}
	return l.bits[index/8]>>(index%8)&1 == 1, true
}

// parseList returns the list in a Status List Token with the given issuer and URI. find returns the key
// with an ID.
//
// Errors: those whose names begin with ErrList, and those of find.
func parseList(ctx context.Context, token, issuer, uri string, find func(context.Context, string) (*publicKey, error)) (*list, error) {
	parsed, err := parseJWS(token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListMalformed, err)
	}
	if parsed.kind != listType {
		return nil, ErrListType
	}
	key, err := find(ctx, parsed.keyID)
	if errors.Is(err, ErrSignature) || err == nil && !key.verifies(parsed) {
		return nil, ErrListSignature
	}
	if err != nil {
		return nil, err
	}
	var claims struct {
		Issuer    string  `json:"iss"`
		Subject   string  `json:"sub"`
		IssuedAt  seconds `json:"iat"`
		ExpiresAt seconds `json:"exp"`
		TTL       float64 `json:"ttl"`
		List      struct {
			Bits int    `json:"bits"`
			List string `json:"lst"`
		} `json:"status_list"`
	}
	if err := json.Unmarshal(parsed.payload, &claims); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListMalformed, err)
	}
	switch {
	case claims.Issuer != issuer:
		return nil, ErrListIssuer
	case claims.Subject != uri:
		return nil, ErrListSubject
	case claims.IssuedAt == 0 || claims.ExpiresAt == 0 || claims.List.Bits != 1:
		return nil, fmt.Errorf("%w: iat or exp is missing, or bits is not 1", ErrListMalformed)
	}
	l := &list{issuedAt: claims.IssuedAt.time(), expires: claims.ExpiresAt.time(), ttl: clampTTL(claims.TTL)}
	if latest := l.issuedAt.Add(maxListAge); l.expires.After(latest) {
		l.expires = latest
	}
	l.bits, err = inflate(claims.List.List)
	return l, err
}

func clampTTL(s float64) time.Duration {
	return time.Duration(min(max(s, minTTL.Seconds()), maxTTL.Seconds()) * float64(time.Second))
}

// inflate decompresses the entries of a list, and stops if there are too many.
func inflate(encoded string) ([]byte, error) {
	compressed, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListMalformed, err)
	}
	reader, err := zlib.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListMalformed, err)
	}
	bits, err := io.ReadAll(io.LimitReader(reader, maxList+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrListMalformed, err)
	case len(bits) > maxList:
		return nil, ErrListTooLarge
	}
	return bits, nil
}
