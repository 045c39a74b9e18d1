package registry

import "github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"

// Subject records which client holds a subject of an issuer. Requests with a token of this subject
// get that client unless they name another one.
type Subject struct {
	Record   string // name of the record
	Version  string // resource version of the record
	RealmUID string
	Issuer   string // URL of a trusted issuer, or clientassertion.IssuerKubernetes
	Subject  string
	// ClientID and ClientUID identify the client. If the client ID has another holder now, the
	// subject has no holder.
	ClientID  string
	ClientUID string
}

type subjectKey struct{ issuer, subject string }

func (s *Subject) key() subjectKey { return subjectKey{s.Issuer, s.Subject} }

// Identity matches tokens of a trusted issuer, by their subject or by their claims.
type Identity struct {
	ID     string // in reports of its use
	Issuer string // URL
	// Subject is the exact subject. If empty, Claims match.
	Subject string
	// Claims are the claims that a token must have, with their values.
	Claims map[string]string
}

// Holder returns the client that holds a subject of an issuer, or nil. The client must still list
// the subject, because its record and that of the subject can change at different times. The issuer
// is the URL of a trusted issuer, or clientassertion.IssuerKubernetes.
func (r *Realm) Holder(issuer, subject string) *Client {
	held, ok := r.tables.subjects.Load(subjectKey{issuer, subject})
	if !ok {
		return nil
	}
	client := r.Client(held.ClientID)
	if client == nil || client.UID != held.ClientUID || !client.lists(issuer, subject) {
		return nil
	}
	return client
}

// lists reports whether tokens with the exact subject authenticate the client.
func (c *Client) lists(issuer, subject string) bool {
	if issuer == clientassertion.IssuerKubernetes {
		for _, account := range c.ServiceAccounts {
			if account.Subject() == subject {
				return true
			}
		}
		return false
	}
	for _, identity := range c.Identities {
		if identity.Issuer == issuer && identity.Subject == subject {
			return true
		}
	}
	return false
}
