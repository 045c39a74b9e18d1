package keycloak

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

// masked is in the exports of the admin console in place of each secret.
const masked = "**********"

// hashed returns the hash of a secret, or why it can't be used. It never returns the secret.
//
// The hash is always Argon2id. Most secrets of Keycloak are random and would be safe with an HMAC, but
// the export doesn't say which ones people chose, and hashes that are committed can be guessed for
// years.
//
// The error is that of reading random.
func hashed(secret string, random io.Reader) (hash, problem string, err error) {
	switch {
	case secret == "":
		return "", "its secret is not in the export; export the realm with \"kc.sh export\"", nil
	case secret == masked:
		return "", "its secret is masked; export the realm with \"kc.sh export\" instead of the admin console or API", nil
	case strings.HasPrefix(secret, "${") && strings.HasSuffix(secret, "}"):
		return "", "its secret is a placeholder; replace it in the export with the secret, and import again", nil
	}
	if err := clientsecret.CheckChosen(secret); err != nil {
		return "", err.Error() + "; give the client a new secret", nil //nolint:nilerr // The client is not imported.
	}
	verifier, err := clientsecret.HashArgon2id(secret, random)
	if err != nil {
		return "", "", err
	}
	return verifier.String(), "", nil
}

// publicKeys returns the keys of a client with signed assertions, or why they can't be used.
func (c *client) publicKeys() ([]migration.PublicKey, string) {
	algorithm := signingkey.Algorithm(cmp.Or(c.Attributes["token.endpoint.auth.signing.alg"], string(signingkey.RS256)))
	switch {
	case c.Attributes["use.jwks.url"] == "true":
		return nil, "its public keys are at a URL, and the operator does not fetch them; list them in spec.publicKeys of an ApiClient"
	case c.Attributes["use.jwks.string"] == "true":
		keys, err := migration.Keys(json.RawMessage(c.Attributes["jwks.string"]), algorithm)
		if err != nil {
			return nil, err.Error()
		}
		return keys, ""
	}
	der, err := base64.StdEncoding.DecodeString(unarmored(cmp.Or(c.Attributes["jwt.credential.certificate"], c.Attributes["jwt.credential.public.key"])))
	if err != nil || len(der) == 0 {
		return nil, "it has no certificate and no public key in the export"
	}
	if certificate, err := x509.ParseCertificate(der); err == nil {
		der = certificate.RawSubjectPublicKeyInfo
	}
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	// If the key has no ID, Keycloak and its adapters use its hash.
	hash := sha256.Sum256(der)
	id := cmp.Or(c.Attributes["jwt.credential.kid"], base64.RawURLEncoding.EncodeToString(hash[:]))
	if !migration.ValidKeyID(id) {
		return nil, "the ID of its key must have 1 to 128 letters, digits, and characters from ._~:/+=@-"
	}
	if _, err := x509.ParsePKIXPublicKey(der); err != nil {
		return nil, "its certificate or public key cannot be read"
	}
	used := signingkey.Algorithm(c.Attributes["token.endpoint.auth.signing.alg"])
	key, err := signingkey.ImportPEM([]byte(block), id, used)
	if err != nil && used == "" {
		used = signingkey.RS256
		key, err = signingkey.ImportPEM([]byte(block), id, used)
	}
	if err != nil {
		return nil, err.Error()
	}
	return []migration.PublicKey{{ID: key.ID(), Algorithm: key.Algorithm(), PEM: block}}, ""
}

// unarmored returns the Base64 text of a PEM block, with or without the first and last lines.
func unarmored(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
			b.WriteString(line)
		}
	}
	return b.String()
}
