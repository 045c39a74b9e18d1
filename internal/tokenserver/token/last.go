package token

import (
	"io"
	"slices"
	"sync/atomic"
	"time"
	"weak"
)

const (
	// MaxLast is how many clients have a last token at most. The largest ones need 18 MiB, usual ones 4 MiB.
	MaxLast = 4096
	// maxLastBytes is the size of the largest token that is kept.
	maxLastBytes = 4 << 10
)

// Credential identifies what authenticated a client, as in the audit log.
type Credential struct {
	Method          string // distinguishes a secret, a key of the client, and the tokens of each issuer
	Issuer, Subject string // of a token of a third party
	ID              string
}

// Issued is a signed token.
type Issued struct {
	JWT string
	ID  ID
	// Reused means that the client got the same token before.
	Reused bool
}

// Reuse signs tokens, and issues the last one of a client again within the same second. It limits how many
// clients have one: the client that has had one for the longest time loses it. It is safe for concurrent use.
type Reuse struct {
	next    atomic.Uint64
	clients []atomic.Pointer[Last]
}

// NewReuse returns a Reuse for the given number of clients. With 0, it signs every token.
func NewReuse(clients int) *Reuse { return &Reuse{clients: make([]atomic.Pointer[Last], clients)} }

// Last holds the last token of a client. There must be another one for each version of the client. The zero value
// holds none.
//
// It isn't part of the client, and what it holds refers to the realm and its key only weakly. So neither a client
// nor a key stays in memory because of a token that was issued.
type Last struct{ last atomic.Pointer[last] }

// Drop drops the token.
func (l *Last) Drop() { l.last.Store(nil) }

// last is a token, and what it depends on apart from the version of its client. The signer stands for the version
// of the realm, which has one of its own; see NewSigner. The texts are the client's and not parts of the request,
// which would stay in memory.
type last struct {
	signer     weak.Pointer[Signer]
	issuedAt   int64
	lifetime   time.Duration
	scope      string
	audience   []string
	credential Credential

	jwt string
	id  ID
}

// Issue returns a token with the given claims, whose client was authenticated by the credential. If the client has
// got such a token in this second, with the same credential, the result is this one. A new token would differ
// only in "jti". Tokens that are bound to a key or act for another subject are always new.
//
// Errors: those of Signer.Sign.
func (r *Reuse) Issue(s *Signer, claims Claims, l *Last, by Credential, random io.Reader) (Issued, error) {
	keep := len(r.clients) > 0 && claims.JKT == "" && claims.Delegation == nil
	if have := l.last.Load(); keep && have != nil && have.signer == s.self && have.issuedAt == claims.IssuedAt.Unix() && have.lifetime == claims.Lifetime &&
		have.scope == claims.Scope && slices.Equal(have.audience, claims.Audience) && have.credential == by {
		return Issued{JWT: have.jwt, ID: have.id, Reused: true}, nil
	}
	jwt, id, err := s.Sign(claims, random)
	if err != nil || !keep || len(jwt) > maxLastBytes {
		return Issued{JWT: jwt, ID: id}, err
	}
	before := l.last.Swap(&last{
		signer: s.self, issuedAt: claims.IssuedAt.Unix(), lifetime: claims.Lifetime, scope: claims.Scope, audience: claims.Audience, credential: by, jwt: jwt, id: id,
	})
	if before == nil {
		r.add(l)
	}
	return Issued{JWT: jwt, ID: id}, nil
}

// add adds a client that has a token now, in place of the one that was added first.
func (r *Reuse) add(l *Last) {
	i := (r.next.Add(1) - 1) % uint64(len(r.clients))
	if first := r.clients[i].Swap(l); first != nil && first != l {
		first.Drop()
	}
}
