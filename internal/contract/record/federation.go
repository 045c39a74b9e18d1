package record

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// Limits of the trusted issuers of a realm and of the identities of a client. They limit the memory
// of token servers and the size of a record.
const (
	MaxIssuers       = 16
	MaxIssuerKeys    = 32
	MaxIdentities    = 16
	maxMatchedClaims = 8
)

// Issuer is a third party whose tokens authenticate clients of a realm, or can be exchanged.
type Issuer struct {
	// Name is the name in the Realm. Issuer is the "iss" claim of the tokens.
	Name   string `json:"name"`
	Issuer string `json:"issuer"`
	// Audience is the only value of the tokens' "aud" claim.
	Audience string `json:"audience"`
	// RequiredClaims are strings that each token must contain.
	RequiredClaims map[string]string `json:"requiredClaims,omitempty"`
	// Authenticates means that the tokens authenticate clients, Subjects that they can be exchanged, and
	// IDJAG that ID-JAGs of the issuer are accepted.
	Authenticates bool `json:"authenticates,omitempty"`
	Subjects      bool `json:"subjects,omitempty"`
	IDJAG         bool `json:"idJAG,omitempty"`
	// Keys verify the tokens. They are the last known good keys of the issuer.
	Keys []signingkey.PublicKey `json:"keys,omitempty"`
	// Source identifies the configuration from which Keys were resolved, so that the operator never
	// keeps keys of a different source. Token servers ignore it.
	Source string `json:"source,omitempty"`
	// FetchedAt identifies the fetch that Keys come from. It is the time at which the fetch began, and later
	// than that of the keys that it replaced. It is zero for keys in the spec. Token servers ignore it.
	FetchedAt time.Time `json:"fetchedAt,omitzero"`
}

// Identity selects the tokens of a service account of the cluster, or those of a trusted issuer by either
// their subject or their claims.
type Identity struct {
	// ID is the name in the ApiClient, which identifies the identity in reports of its use.
	ID string `json:"id"`
	// ServiceAccount is a service account of the cluster. It is nil for tokens of a trusted issuer, and the
	// other members are empty if it is set.
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty"`
	// IssuerName is the name of the issuer in the Realm, and Issuer is the "iss" claim. Both must match,
	// because several issuers of a realm can have the same URL, and a Realm can change the URL of one.
	IssuerName string `json:"issuerName,omitempty"`
	Issuer     string `json:"issuer,omitempty"`
	// Subject is the "sub" claim.
	Subject string `json:"subject,omitempty"`
	// Claims are strings that the token must contain.
	Claims map[string]string `json:"claims,omitempty"`
}

// Subject is the record of the ApiClient that holds a subject of an issuer. Tokens with the subject
// select the client without a client ID if the client's own record also lists the subject.
type Subject struct {
	// RealmUID, IssuerName, Issuer, and Subject determine the name of the record; see SubjectRecordName.
	// IssuerName is the name of the issuer in the Realm, and Issuer is the "iss" claim. For a service
	// account of the cluster, both are v1beta1.IssuerKubernetes.
	RealmUID   types.UID `json:"realmUID"`
	RealmName  string    `json:"realmName"`
	IssuerName string    `json:"issuerName"`
	Issuer     string    `json:"issuer"`
	Subject    string    `json:"subject"`
	// ClientID is the holder's client ID. UID, Namespace, and Name identify its ApiClient.
	ClientID  string    `json:"clientID"`
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

func validIssuers(issuers []Issuer) bool {
	type tokens struct{ issuer, audience string }
	names, entries := map[string]bool{v1beta1.IssuerKubernetes: true}, map[tokens]bool{}
	for _, issuer := range issuers {
		if issuer.Name == "" || issuer.Issuer == "" || issuer.Audience == "" ||
			names[issuer.Name] || entries[tokens{issuer.Issuer, issuer.Audience}] ||
			len(issuer.Keys) > MaxIssuerKeys || !validMatch(issuer.RequiredClaims) {
			return false
		}
		names[issuer.Name], entries[tokens{issuer.Issuer, issuer.Audience}] = true, true
	}
	return len(issuers) <= MaxIssuers
}

func validIdentities(identities []Identity) bool {
	for _, identity := range identities {
		if identity.ID == "" || !validMatch(identity.Claims) {
			return false
		}
		if account := identity.ServiceAccount; account != nil {
			if account.Namespace == "" || account.Name == "" || account.UID == "" ||
				identity.Issuer != "" || identity.Subject != "" || len(identity.Claims) > 0 {
				return false
			}
			continue
		}
		if identity.Issuer == "" || identity.IssuerName == "" || (identity.Subject == "") == (len(identity.Claims) == 0) {
			return false
		}
	}
	return len(identities) <= MaxIdentities
}

// validMatch reports whether a matcher has only names and values that identify something.
func validMatch(claims map[string]string) bool {
	for name, value := range claims {
		if name == "" || value == "" {
			return false
		}
	}
	return len(claims) <= maxMatchedClaims
}
