package verify

import "errors"

// These are the reasons for rejecting a token. Compare with errors.Is.
var (
	// ErrNoToken means that the request has no access token.
	ErrNoToken = errors.New("request has no access token")
	// ErrMalformed means that the token isn't a signed JWT with the claims of an access token.
	ErrMalformed = errors.New("token is not a signed JWT with the claims of an access token")
	// ErrType means that the token is a JWT for another purpose, because its typ isn't at+jwt.
	ErrType = errors.New("token is not an access token")
	// ErrSignature means that no current key of the issuer signed the token.
	ErrSignature = errors.New("token is not signed with a key of the issuer")
	// ErrIssuer means that the token has another issuer.
	ErrIssuer = errors.New("token has another issuer")
	// ErrAudience means that the token is for other APIs.
	ErrAudience = errors.New("token is for another audience")
	// ErrExpired means that the token has expired.
	ErrExpired = errors.New("token has expired")
	// ErrNotYetValid means that the token was issued in the future: the clocks differ by more than Skew.
	ErrNotYetValid = errors.New("token is not valid yet")
	// ErrDelegated means that a client acts for another subject with the token. See Options.Delegated.
	ErrDelegated = errors.New("token is delegated, and the API accepts no delegated tokens")
	// ErrStatus means that the token refers to a status list of another issuer, or to none although
	// it must.
	ErrStatus = errors.New("token has no status of the issuer")
	// ErrRevoked means that the token is revoked, or that its client is suspended.
	ErrRevoked = errors.New("token is revoked")
	// ErrScope means that the token lacks a required scope.
	ErrScope = errors.New("token lacks scope")
	// ErrScheme means that a token that is bound to a key was sent as Bearer, or another one as DPoP.
	ErrScheme = errors.New("token has another type than the authorization scheme")
	// ErrProof means that a token that is bound to a key has no valid DPoP proof, or that a token isn't bound
	// to a key although DPoP.Required says so.
	ErrProof = errors.New("token has no valid DPoP proof")
)

// These errors mean that a token is neither known to be valid nor to be invalid. The same request can
// succeed later. Require responds with 503 and Retry-After.
var (
	// ErrKeysUnavailable means that the keys of the issuer can't be loaded and the last ones are older than
	// 24 hours or don't contain the token's key, or that too many tokens wait for a load.
	ErrKeysUnavailable = errors.New("keys of the issuer are unavailable")
	// ErrStatusUnavailable means that the token's status list can't be loaded, and that the last one
	// has expired. The error also matches the reason, such as ErrListSignature.
	ErrStatusUnavailable = errors.New("status list is unavailable")
	// ErrTooManyProofs means that there is no space to remember the proof. See DPoP.MaxProofs.
	ErrTooManyProofs = errors.New("too many DPoP proofs to remember")
)

// These are the reasons for rejecting a status list. The last valid one remains until it expires.
// Metrics.Loaded gets them.
var (
	// ErrListType means that the response isn't a status list: the media type or typ is another one.
	ErrListType = errors.New("response is not a status list in JWT format")
	// ErrListSignature means that no current key of the issuer signed the list.
	ErrListSignature = errors.New("status list is not signed with a key of the issuer")
	// ErrListIssuer means that iss is another issuer.
	ErrListIssuer = errors.New("status list has another issuer")
	// ErrListSubject means that sub is the URI of another list.
	ErrListSubject = errors.New("status list has another URI")
	// ErrListMalformed means that the list has the wrong form, or more than one bit per token.
	ErrListMalformed = errors.New("status list is malformed")
	// ErrListTooLarge means that the response has over 256 KiB, or the list over 2^20 entries.
	ErrListTooLarge = errors.New("status list is too large")
	// ErrListTooShort means that the list has no entry for the token, although it was loaded within the last
	// second. No statement about the token is possible, so it is rejected with this error.
	ErrListTooShort = errors.New("status list has no entry for the token")
	// ErrListExpired means that the list has expired.
	ErrListExpired = errors.New("status list has expired")
	// ErrListNotYetValid means that the list was issued in the future.
	ErrListNotYetValid = errors.New("status list is not valid yet")
	// ErrListOlder means that the list was issued before the last one.
	ErrListOlder = errors.New("status list is older than the last one")
)

// reasons are the values of Reason. The first that matches an error applies.
var reasons = []struct {
	err    error
	reason string
}{
	{ErrKeysUnavailable, "keys_unavailable"},
	{ErrStatusUnavailable, "status_unavailable"},
	{ErrTooManyProofs, "too_many_proofs"},
	{ErrNoToken, "no_token"},
	{ErrMalformed, "malformed"},
	{ErrType, "type"},
	{ErrSignature, "signature"},
	{ErrIssuer, "issuer"},
	{ErrAudience, "audience"},
	{ErrExpired, "expired"},
	{ErrNotYetValid, "not_yet_valid"},
	{ErrDelegated, "delegated"},
	{ErrStatus, "status"},
	{ErrRevoked, "revoked"},
	{ErrScope, "scope"},
	{ErrScheme, "scheme"},
	{ErrProof, "proof"},
	{ErrListTooShort, "list_too_short"},
	{ErrListType, "list_type"},
	{ErrListSignature, "list_signature"},
	{ErrListIssuer, "list_issuer"},
	{ErrListSubject, "list_subject"},
	{ErrListMalformed, "list_malformed"},
	{ErrListTooLarge, "list_too_large"},
	{ErrListExpired, "list_expired"},
	{ErrListNotYetValid, "list_not_yet_valid"},
	{ErrListOlder, "list_older"},
}

// Reason returns a short constant for an error of this package, such as "expired", for the label of a
// metric. It is "ok" for nil, and "error" for other errors.
func Reason(err error) string {
	if err == nil {
		return "ok"
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return "error"
}
