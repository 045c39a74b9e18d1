package realm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// supportedIssuers returns the trusted issuers that can be used, and the status of the others. One that
// can't be used affects no other issuer and no other client.
func supportedIssuers(realm *v1beta1.Realm, instance *config.Instance) (supported []v1beta1.TrustedIssuer, others []v1beta1.TrustedIssuerStatus) {
	own := instance.Issuer(realm.Name)
	for _, issuer := range realm.Spec.TrustedIssuers {
		problem := issuerProblem(&issuer, own)
		// The schema doesn't know the default of the audience.
		if i := slices.IndexFunc(supported, func(s v1beta1.TrustedIssuer) bool {
			return s.Issuer == issuer.Issuer && audienceOf(&s, own) == audienceOf(&issuer, own)
		}); problem == "" && i >= 0 {
			problem = fmt.Sprintf("it has the same issuer and audience as %q. Set another audience in one of the two.", supported[i].Name)
		}
		if problem != "" {
			others = append(others, v1beta1.TrustedIssuerStatus{Name: issuer.Name, Message: problem})
			continue
		}
		supported = append(supported, issuer)
	}
	return supported, others
}

// audienceOf returns the audience of an issuer's tokens. It defaults to the Realm's own issuer.
func audienceOf(issuer *v1beta1.TrustedIssuer, own string) string {
	return cmp.Or(string(issuer.Audience), own)
}

// issuerProblem returns why an issuer can't be used and what to do, or an empty string. It checks what
// the schema can't.
func issuerProblem(issuer *v1beta1.TrustedIssuer, own string) string {
	if string(issuer.Issuer) == own {
		return "it is the issuer of this Realm, whose tokens do not authenticate clients. Remove it."
	}
	if jwks := issuer.Keys.JWKS; jwks != "" {
		if _, _, err := signingkey.ParseKeySet([]byte(jwks)); err != nil {
			return fmt.Sprintf("keys.jwks: %v. List only public keys with a kid that are for a supported algorithm.", err)
		}
	}
	if _, err := trustedissuers.ParseCABundle([]byte(issuer.Keys.CABundle)); err != nil {
		return fmt.Sprintf("keys.%v. Replace it.", err)
	}
	return ""
}

// sourceOf identifies where the keys of an issuer come from. Keys of another source may belong to
// another party.
func sourceOf(issuer *v1beta1.TrustedIssuer) string {
	// An encoded list is unambiguous, and strings can always be encoded.
	parts, _ := json.Marshal([]string{string(issuer.Issuer), issuer.Keys.JWKSURI, string(issuer.Keys.CABundle), string(issuer.Keys.JWKS)})
	sum := sha256.Sum256(parts)
	return hex.EncodeToString(sum[:])
}

// recordedIssuers returns trusted issuers for the record, sorted by name. Their keys are those in the
// spec, or those of the latest fetch. own is the Realm's issuer, and current are the issuers in its record.
func recordedIssuers(trusted []v1beta1.TrustedIssuer, own string, fetched map[string]trustedissuers.State, current []record.Issuer) []record.Issuer {
	var issuers []record.Issuer
	for i := range trusted {
		spec := &trusted[i]
		issuer := record.Issuer{
			Name: spec.Name, Issuer: string(spec.Issuer), Source: sourceOf(spec),
			Audience:       audienceOf(spec, own),
			RequiredClaims: v1beta1.ClaimMatches(spec.RequiredClaims).Map(),
			Authenticates:  spec.Accepts(v1beta1.IssuerUseClientAuthentication),
			Subjects:       spec.Accepts(v1beta1.IssuerUseSubject),
			IDJAG:          spec.Accepts(v1beta1.IssuerUseIDJAG),
		}
		if spec.Keys.JWKS != "" {
			issuer.Keys, _, _ = signingkey.ParseKeySet([]byte(spec.Keys.JWKS)) // issuerProblem has checked it
		} else {
			issuer.Keys, issuer.FetchedAt = latest(ofSource(current, issuer.Source), fetched[spec.Name])
		}
		issuers = append(issuers, issuer)
	}
	slices.SortFunc(issuers, func(a, b record.Issuer) int { return cmp.Compare(a.Name, b.Name) })
	return issuers
}

// latest returns the keys of the later one of two fetches, and its time. A fetch of this process is the later
// one only if it began when the recorded one was known. Otherwise another operator may have recorded a
// revocation in the meantime. A fetch of the recorded keys changes nothing.
func latest(recorded record.Issuer, fetched trustedissuers.State) ([]signingkey.PublicKey, time.Time) {
	if fetched.Keys == nil || !fetched.After.Equal(recorded.FetchedAt) || slices.EqualFunc(fetched.Keys, recorded.Keys, signingkey.PublicKey.Equal) {
		return recorded.Keys, recorded.FetchedAt
	}
	return fetched.Keys, fetched.FetchedAt
}

// ofSource returns the recorded issuer with keys from a source, or an empty one. The name of the issuer
// doesn't matter.
func ofSource(issuers []record.Issuer, source string) record.Issuer {
	for _, issuer := range issuers {
		if issuer.Source == source {
			return issuer
		}
	}
	return record.Issuer{}
}

// issuersToFetch returns the trusted issuers whose keys are fetched.
func issuersToFetch(trusted []v1beta1.TrustedIssuer, recorded []record.Issuer) []trustedissuers.Issuer {
	var issuers []trustedissuers.Issuer
	for i := range trusted {
		spec := &trusted[i]
		if spec.Keys.JWKS != "" {
			continue
		}
		source := sourceOf(spec)
		current := ofSource(recorded, source)
		issuers = append(issuers, trustedissuers.Issuer{
			Name: spec.Name, URL: string(spec.Issuer), JWKSURI: spec.Keys.JWKSURI, CABundle: []byte(spec.Keys.CABundle),
			Source: source, HaveKeys: len(current.Keys) > 0, FetchedAt: current.FetchedAt,
		})
	}
	return issuers
}

// withoutIssuerKeys returns copies of the issuers without their keys and the time of their fetch.
func withoutIssuerKeys(issuers []record.Issuer) []record.Issuer {
	copies := slices.Clone(issuers)
	for i := range copies {
		copies[i].Keys, copies[i].FetchedAt = nil, time.Time{}
	}
	return copies
}
