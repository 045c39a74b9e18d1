package token

import "encoding/json"

// Delegation is what a token states beyond its client if the client acts for another subject (RFC 8693
// §4). The private claims let the realm check everyone in the token again.
type Delegation struct {
	// Subject is "sub": the ID of a client, or an external subject.
	Subject string `json:"sub"`
	// SubjectUID is the identity of the client in Subject; see Claims.Identity. It is empty for an
	// external subject.
	SubjectUID string `json:"sub_uid,omitempty"`
	// SubjectID identifies an external subject at its issuer; nil for a client.
	SubjectID *SubjectID `json:"sub_id,omitempty"`
	// Act is the chain of actors, outermost first (RFC 8693 §4.1). It is nil if the client got the token
	// with an ID-JAG that states none.
	Act *Actor `json:"act,omitempty"`
	// Rules are the rules by which the token was issued: that of the last exchange first, and then those
	// of the tokens that were exchanged.
	Rules []Rule `json:"rule"`
}

// SubjectID identifies a subject at its issuer (RFC 9493 §3.2.4).
type SubjectID struct {
	Format  string `json:"format"` // SubjectIDFormat
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
}

// SubjectIDFormat is the format of a SubjectID.
const SubjectIDFormat = "iss_sub"

// Actor is an actor in a chain.
type Actor struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	// ClientUID is the identity of a client of the realm. It is empty for an actor that another issuer
	// states.
	ClientUID string `json:"client_uid,omitempty"`
	Act       *Actor `json:"act,omitempty"`
}

// Depth returns the number of actors in the chain.
func (a *Actor) Depth() int {
	n := 0
	for ; a != nil; a = a.Act {
		n++
	}
	return n
}

// Rule refers to a rule of the realm and to what the rule allowed when the token was issued.
type Rule struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// IssuedAt is the "iat" of the access token that was exchanged, so that an exchange doesn't make it
	// newer. It is zero for the token of an issuer.
	IssuedAt int64 `json:"iat,omitempty"`
}

// appendDelegation appends the members of d, each after a comma. Tokens of exchanges are rarer and larger
// than others, so it uses encoding/json.
func appendDelegation(b []byte, d *Delegation) []byte {
	encoded, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	b = append(b, ',')
	return append(b, encoded[1:len(encoded)-1]...)
}
