package clientsecret

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Minimum and maximum length of a user-chosen secret, in characters.
const (
	MinChosenLength = 16
	MaxChosenLength = 1024
)

var (
	// ErrTooShort means that a secret has fewer than MinChosenLength characters.
	ErrTooShort = errors.New("secret must have at least 16 characters")
	// ErrNotUsable means that clients can't send the secret, or can't send it with every
	// authentication method.
	ErrNotUsable = errors.New("secret must be valid UTF-8 of at most 1024 characters, without control characters such as line breaks")
)

// CheckChosen returns an error if a user-chosen secret is not allowed.
//
// Errors: ErrNotUsable, ErrTooShort.
func CheckChosen(secret string) error {
	characters := utf8.RuneCountInString(secret)
	switch {
	case !utf8.ValidString(secret), characters > MaxChosenLength, strings.ContainsFunc(secret, isControl):
		return ErrNotUsable
	case characters < MinChosenLength:
		return ErrTooShort
	}
	return nil
}

// isControl reports whether r is an ASCII control character, which the token endpoint rejects.
func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
