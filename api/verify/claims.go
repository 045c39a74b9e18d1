package verify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-jose/go-jose/v4/json"
)

// Claims are the claims of a valid access token.
type Claims struct {
	// Subject is the client, or the subject for which it acts if the token is Delegated.
	Subject string
	// ClientID is the client that got the token.
	ClientID string
	// ClientUID distinguishes clients that had the same ClientID at different times.
	ClientUID string
	// Audience is what the token is for. It contains Options.Audience.
	Audience []string
	// Scopes may be empty.
	Scopes []string
	// IssuedAt and ExpiresAt have seconds.
	IssuedAt, ExpiresAt time.Time
	// ID identifies the token (jti).
	ID string
	// JKT is the thumbprint of the key that the token is bound to, or empty (RFC 9449 §6.1).
	JKT string
	// Actors are the clients that act for Subject, the current one first (RFC 8693 §4.1). Earlier
	// ones are information only. It can be empty even if the token is Delegated.
	Actors []Actor

	issuer    string
	notBefore time.Time
	status    *reference
	payload   string // the part of the token that has the claims; set by own
}

// Actor is a client that acts for another subject.
type Actor struct {
	// Issuer of the actor, which is another one than the realm for actors that a trusted issuer states.
	Issuer string `json:"iss"`
	// Subject is the actor. It is a client ID if Issuer is the realm.
	Subject string `json:"sub"`
	// ClientUID is as in Claims.
	ClientUID string `json:"client_uid"`
}

// HasScope reports whether the token has the scope.
func (c *Claims) HasScope(scope string) bool { return slices.Contains(c.Scopes, scope) }

// HasAudience reports whether the token is for the audience.
func (c *Claims) HasAudience(audience string) bool { return slices.Contains(c.Audience, audience) }

// Delegated reports whether the client acts for another subject.
func (c *Claims) Delegated() bool { return c.Subject != c.ClientID || len(c.Actors) > 0 }

// Decode decodes all claims into a pointer, as json.Unmarshal does, except that names must be equal even in
// case. Use it for the fixed claims of the realm and its clients.
func (c *Claims) Decode(into any) error {
	decoded, err := base64.RawURLEncoding.DecodeString(c.payload)
	if err != nil {
		return err
	}
	return strict.Unmarshal(decoded, into)
}

// own returns a copy for a caller that presented the token. The copy shares nothing that the caller can change.
func (c *Claims) own(token string) *Claims {
	own := *c
	own.Audience, own.Scopes, own.Actors = slices.Clone(c.Audience), slices.Clone(c.Scopes), slices.Clone(c.Actors)
	_, rest, _ := strings.Cut(token, ".")
	own.payload, _, _ = strings.Cut(rest, ".")
	return &own
}

// size returns how many bytes of memory the claims take at most. Memory is allocated in steps of 16 bytes, or of less
// than a fifth.
func (c *Claims) size() int {
	const structs, text, actor = 400, 32, 2 * 96 // with the texts of each rounded up by 16, and the space to add actors
	size := len(c.Subject) + len(c.ClientID) + len(c.ClientUID) + len(c.ID) + len(c.JKT) + len(c.issuer)
	for _, a := range slices.Concat(c.Audience, c.Scopes) {
		size += len(a) + text
	}
	for _, a := range c.Actors {
		size += len(a.Issuer) + len(a.Subject) + len(a.ClientUID) + actor
	}
	if c.status != nil {
		size += len(c.status.uri)
	}
	return structs + size*6/5
}

// reference says where the status of a token is.
type reference struct {
	uri   string
	index int
}

// claimsJSON has the claims that are interpreted (RFC 9068 §2.2).
type claimsJSON struct {
	Issuer       string     `json:"iss"`
	Subject      string     `json:"sub"`
	ClientID     string     `json:"client_id"`
	ClientUID    string     `json:"client_uid"`
	Audience     audience   `json:"aud"`
	Scope        string     `json:"scope"`
	IssuedAt     seconds    `json:"iat"`
	NotBefore    seconds    `json:"nbf"`
	ExpiresAt    seconds    `json:"exp"`
	ID           string     `json:"jti"`
	Actor        *actorJSON `json:"act"`
	Confirmation *struct {
		JKT string `json:"jkt"`
	} `json:"cnf"`
	Status *struct {
		List *struct {
			Index *int   `json:"idx"`
			URI   string `json:"uri"`
		} `json:"status_list"`
	} `json:"status"`
}

type actorJSON struct {
	Actor

	Earlier *actorJSON `json:"act"`
}

// decodeClaims returns the claims of a JWT whose signature is valid.
func decodeClaims(payload []byte) (*Claims, error) {
	var c claimsJSON
	// The JSON decoder of go-jose is case-sensitive and rejects duplicate members.
	if err := strict.Unmarshal(payload, &c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if c.Subject == "" || c.ClientID == "" || c.ID == "" || c.IssuedAt == 0 || c.ExpiresAt == 0 {
		return nil, fmt.Errorf("%w: sub, client_id, jti, iat, or exp is missing", ErrMalformed)
	}
	claims := &Claims{
		Subject: c.Subject, ClientID: c.ClientID, ClientUID: c.ClientUID, Audience: slices.Clone(c.Audience), Scopes: strings.Fields(c.Scope),
		IssuedAt: c.IssuedAt.time(), ExpiresAt: c.ExpiresAt.time(), ID: c.ID,
		issuer: c.Issuer, notBefore: c.NotBefore.time(),
	}
	if c.Confirmation != nil {
		if claims.JKT = c.Confirmation.JKT; claims.JKT == "" {
			return nil, fmt.Errorf("%w: cnf has no jkt", ErrMalformed)
		}
	}
	for a := c.Actor; a != nil; a = a.Earlier {
		claims.Actors = append(claims.Actors, a.Actor)
	}
	if c.Status != nil {
		list := c.Status.List
		if list == nil || list.Index == nil || *list.Index < 0 || list.URI == "" {
			return nil, fmt.Errorf("%w: status has no valid status_list", ErrMalformed)
		}
		claims.status = &reference{uri: list.URI, index: *list.Index}
	}
	return claims, nil
}

// audience is a string or an array of strings (RFC 7519 §4.1.3).
type audience []string

func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	var several []string
	err := json.Unmarshal(data, &several)
	*a = several
	return err
}

// seconds is a time in whole seconds since 1970. 0 means that it is missing.
type seconds int64

// maxSeconds is in the year 36812.
const maxSeconds = 1 << 40

var errTime = errors.New("time is not an integer, or out of range")

func (s *seconds) UnmarshalJSON(data []byte) error {
	value, err := strconv.ParseInt(string(data), 10, 64) // reads all integers of JSON without exponents
	if err != nil || value < 1 || value > maxSeconds {
		return errTime
	}
	*s = seconds(value)
	return nil
}

func (s seconds) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0)
}
