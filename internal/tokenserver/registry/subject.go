package registry

import "github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"

// Subject records which client holds a subject of an issuer. Requests with a token of this subject
// get that client unless they name another one.
type Subject struct {
	Record   string // name of the record
	Version  string // resource version of the record
	RealmUID string
	// IssuerName is the name of an issuer in the realm, and Issuer is its URL. Both are
	// clientassertion.IssuerKubernetes for a service account of the cluster.
	IssuerName string
	Issuer     string
	Subject    string
	// ClientID and ClientUID identify the client. If the client ID has another holder now, the
	// subject has no holder.
	ClientID  string
	ClientUID string
}

type subjectKey struct{ issuerName, issuer, subject string }

func (s *Subject) key() subjectKey { return subjectKey{s.IssuerName, s.Issuer, s.Subject} }

// Identity matches the tokens of a service account of the cluster, or those of a trusted issuer by their
// subject or by their claims.
type Identity struct {
	ID string // in reports of its use
	// Account is the service account. It is the zero value for the tokens of a trusted issuer.
	Account clientassertion.ServiceAccount
	// IssuerName is the name of the issuer in the realm, and Issuer is its URL.
	IssuerName string
	Issuer     string
	// Subject is the exact subject. If empty, Claims match.
	Subject string
	// Claims are the claims that a token must have, with their values.
	Claims map[string]string
}

// Holder returns the client that holds a subject of an issuer, or nil. The client must still list
// the subject, because its record and that of the subject can change at different times. issuerName and
// issuer are the name and the URL of a trusted issuer, or both clientassertion.IssuerKubernetes.
func (r *Realm) Holder(issuerName, issuer, subject string) *Client {
	key := subjectKey{issuerName, issuer, subject}
	held, ok := r.tables.subjects.Load(key)
	if !ok {
		return nil
	}
	client := r.Client(held.ClientID)
	if client == nil || client.UID != held.ClientUID || !client.names(key) {
		return nil
	}
	return client
}

// names reports whether tokens with the exact subject authenticate the client.
func (c *Client) names(key subjectKey) bool {
	for i := range c.Identities {
		switch identity := &c.Identities[i]; {
		case key.issuerName == clientassertion.IssuerKubernetes:
			if identity.Account != (clientassertion.ServiceAccount{}) && identity.Account.Subject() == key.subject {
				return true
			}
		case identity.IssuerName == key.issuerName && identity.Issuer == key.issuer && identity.Subject == key.subject:
			return true
		}
	}
	return false
}
