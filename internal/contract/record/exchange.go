package record

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Limits of the exchanges of a realm.
const (
	MaxExchanges = 6
	// MaxDepth is the maximum number of actors in a token.
	MaxDepth = 4
)

// Exchange is a rule by which clients get tokens that act for the subject of another token.
type Exchange struct {
	// Name is the name in the Realm.
	Name string `json:"name"`
	// Actors are the clients that can use the rule.
	Actors ClientSelector `json:"actors"`
	// Subjects are the clients whose tokens can be exchanged; nil if they are tokens of Issuer.
	Subjects *ClientSelector `json:"subjects,omitempty"`
	// Issuer is the name of a trusted issuer whose tokens can be exchanged; empty with Subjects. IDJAG means
	// that they are ID-JAGs, and otherwise they are subject tokens. Claims are strings that they must contain.
	Issuer string            `json:"issuer,omitempty"`
	IDJAG  bool              `json:"idJAG,omitempty"`
	Claims map[string]string `json:"claims,omitempty"`
	// SubjectAudiences are audiences of which a token of Subjects must have one, and SubjectScopes are
	// scopes that it must have. With SubjectScopes, the new token can have others.
	SubjectAudiences []string `json:"subjectAudiences,omitempty"`
	SubjectScopes    []string `json:"subjectScopes,omitempty"`
	// Audiences and Scopes are those that a new token can have.
	Audiences []string `json:"audiences"`
	Scopes    []string `json:"scopes"`
	// MaxDepth is the maximum number of actors in a new token.
	MaxDepth int `json:"maxDepth"`
	// DPoP means that every new token is bound to a key of the actor, even if another rule applies.
	DPoP bool `json:"dpop,omitempty"`
	// TokenLifetimeSeconds limits the lifetime of new tokens. Zero means no limit of the rule.
	TokenLifetimeSeconds int64 `json:"tokenLifetimeSeconds,omitempty"`
	// DeniedSubjects are values of "sub" for which Actors get no tokens for Audiences, by any rule.
	DeniedSubjects []string `json:"deniedSubjects,omitempty"`
}

// Digest identifies what the rule allows. A token states the digest of its rule, so that it is rejected
// when the rule has changed. The members that are checked for each token, or that only affect new
// tokens, don't count.
func (e *Exchange) Digest() string {
	matchers := *e
	matchers.DPoP, matchers.TokenLifetimeSeconds, matchers.DeniedSubjects = false, 0, nil
	return Digest(matchers)
}

// ClientSelector selects clients by their namespace. Exactly one of All, Namespaces, and Labels is set.
type ClientSelector struct {
	// All selects every namespace, and Namespaces selects those with these names.
	All        bool     `json:"all,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels is the digest of a selector of namespaces by their labels, which token servers don't know.
	// It selects the clients that list it in their NamespaceSelectors.
	Labels string `json:"labels,omitempty"`
	// ClientIDs are the client IDs of the selected clients. If empty, all clients in the namespaces are
	// selected.
	ClientIDs []string `json:"clientIDs,omitempty"`
}

// DigestOfSelector returns the digest of a selector of namespaces for ClientSelector.Labels.
func DigestOfSelector(selector *v1beta1.NamespaceSelector) string { return Digest(selector) }

// Digest returns a digest of a value that can be encoded as JSON.
func Digest(value any) string {
	encoded, err := json.Marshal(value) // encoding/json sorts the keys of maps
	if err != nil {
		panic(err) // these types can always be encoded
	}
	sum := sha256.Sum256(encoded)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

func validExchanges(exchanges []Exchange) bool {
	names := map[string]bool{}
	for i := range exchanges {
		e := &exchanges[i]
		if e.Name == "" || names[e.Name] || !e.Actors.valid() || e.MaxDepth < 1 || e.MaxDepth > MaxDepth ||
			e.TokenLifetimeSeconds < 0 || e.TokenLifetimeSeconds > maxLifetimeSeconds || !validMatch(e.Claims) ||
			(e.Subjects == nil) == (e.Issuer == "") || e.Subjects != nil && !e.Subjects.valid() {
			return false
		}
		names[e.Name] = true
	}
	return len(exchanges) <= MaxExchanges
}

func (s *ClientSelector) valid() bool {
	set := 0
	for _, is := range []bool{s.All, len(s.Namespaces) > 0, s.Labels != ""} {
		if is {
			set++
		}
	}
	return set == 1
}
