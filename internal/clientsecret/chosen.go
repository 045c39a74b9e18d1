package clientsecret

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// The bounds of a secret that a person chooses, in characters.
const (
	ShortestChosen = 16
	LongestChosen  = 1024
)

var (
	// ErrTooShort says that a secret has fewer than ShortestChosen characters.
	ErrTooShort = errors.New("secret has fewer than 16 characters")
	// ErrNotUsable says that no client can send a secret, or not in every form of request.
	ErrNotUsable = errors.New("secret has more than 1024 characters, a control character such as a line break, or is not UTF-8")
)

// CheckChosen returns why a secret that a person chose can't be one.
//
// Errors: ErrNotUsable; ErrTooShort.
func CheckChosen(secret string) error {
	characters := utf8.RuneCountInString(secret)
	switch {
	case !utf8.ValidString(secret), characters > LongestChosen, strings.ContainsFunc(secret, isControl):
		return ErrNotUsable
	case characters < ShortestChosen:
		return ErrTooShort
	}
	return nil
}

// isControl holds for the control characters of ASCII, which the token endpoint refuses.
func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
