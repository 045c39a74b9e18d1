package registry

import (
	"slices"
	"sync/atomic"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// lastUses holds the period number of the last use for each credential of a client: secrets first,
// then public keys and identities. Unlike the rest of a client, the numbers
// change while the client is in a registry.
type lastUses []atomic.Uint32

// LastUse returns the variable with the period number of a credential's last use, or nil if the
// client doesn't have the credential. The number is 0 if this process knows of no use.
func (c *Client) LastUse(credential usage.Credential) *atomic.Uint32 {
	i := c.indexOf(credential)
	if i < 0 || i >= len(c.lastUses) {
		return nil
	}
	return &c.lastUses[i]
}

// indexOf returns the index of a credential in lastUses, or -1.
func (c *Client) indexOf(credential usage.Credential) int {
	first, i := 0, -1
	switch credential.Type {
	case usage.Secret:
		i = slices.IndexFunc(c.Secrets, func(s clientsecret.Stored) bool { return s.ID == credential.ID })
	case usage.PublicKey:
		first = len(c.Secrets)
		i = slices.IndexFunc(c.PublicKeys, func(k signingkey.PublicKey) bool { return k.ID() == credential.ID })
	case usage.Identity:
		first = len(c.Secrets) + len(c.PublicKeys)
		i = slices.IndexFunc(c.Identities, func(f Identity) bool { return f.ID == credential.ID })
	}
	if i < 0 {
		return -1
	}
	return first + i
}

// track prepares LastToken and LastUse. It drops the last token of an earlier version of the client. It copies
// the last uses of credentials that this version also has, so that a changed record doesn't cause another report.
// The earlier version may be nil.
func (c *Client) track(earlier *Client) {
	if c == earlier {
		return // its record hasn't changed
	}
	c.lastUses, c.lastToken = make(lastUses, len(c.Secrets)+len(c.PublicKeys)+len(c.Identities)), &token.Last{}
	if earlier != nil {
		earlier.lastToken.Drop()
	}
	if earlier == nil || earlier.UID != c.UID {
		return
	}
	keep := func(credential usage.Credential) {
		if last := earlier.LastUse(credential); last != nil {
			c.LastUse(credential).Store(last.Load())
		}
	}
	for i := range c.Secrets {
		keep(usage.Credential{Type: usage.Secret, ID: c.Secrets[i].ID})
	}
	for _, key := range c.PublicKeys {
		keep(usage.Credential{Type: usage.PublicKey, ID: key.ID()})
	}
	for i := range c.Identities {
		keep(usage.Credential{Type: usage.Identity, ID: c.Identities[i].ID})
	}
}
