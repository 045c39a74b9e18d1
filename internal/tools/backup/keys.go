package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// Errors of recipients and identities. Errors about identities never contain their text.
var (
	ErrRecipient    = errors.New("recipient not valid; use a public key of age-keygen, which starts with age1")
	ErrIdentityFile = errors.New("identity file not valid; use a file of age-keygen, with a line that starts with AGE-SECRET-KEY-")
)

// ParseRecipients returns the recipients in a file with one recipient on each line. Empty lines and
// lines that start with # are ignored. The recipients are X25519 keys, or hybrid post-quantum keys
// (age1pq1...); a backup can't have both.
//
// Errors: ErrRecipient.
func ParseRecipients(file io.Reader) ([]age.Recipient, error) {
	recipients, err := age.ParseRecipients(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecipient, err)
	}
	return recipients, nil
}

// ParseIdentities returns the identities in a file of age-keygen.
//
// Errors: ErrIdentityFile.
func ParseIdentities(file io.Reader) ([]age.Identity, error) {
	content, err := io.ReadAll(io.LimitReader(file, maxIdentityFile))
	if err != nil {
		return nil, fmt.Errorf("reading the identity file: %w", err)
	}
	if bytes.HasPrefix(content, []byte(magic)) || strings.HasPrefix(string(content), "-----BEGIN AGE") {
		return nil, fmt.Errorf("%w: the file is encrypted; decrypt it and pass it on standard input: age -d FILE | kubectl realmkeeper restore --identity - BACKUP", ErrIdentityFile)
	}
	identities, err := age.ParseIdentities(bytes.NewReader(content))
	if err != nil {
		return nil, ErrIdentityFile
	}
	return identities, nil
}

// maxIdentityFile limits how much of an identity file is read.
const maxIdentityFile = 1 << 20
