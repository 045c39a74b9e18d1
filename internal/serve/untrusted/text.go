// Package untrusted makes text that other users chose safe to show: in a terminal, and in a command
// that a user copies to a shell.
package untrusted

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable replaces characters that control the terminal or are invisible with spaces: control
// characters, line breaks, marks for the direction of text, and characters that Unicode lets programs
// ignore. Text of other users must neither control the terminal nor look like other text.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !printable(r) {
			return ' '
		}
		return r
	}, text)
}

func printable(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// plain are the characters that have no meaning in a shell, except for "=" at the start of a word in
// zsh.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:@_+/=-"

// Quote quotes a word for a POSIX shell. The result is printable.
//
// A word with characters that Printable replaces becomes a dollar-single-quoted string (POSIX.1-2024,
// section 2.2.4). A shell without support for them passes a different word to the command, but runs no
// part of it. No word can contain NUL, so it becomes U+FFFD; shells would ignore the rest of the word.
func Quote(word string) string {
	if word != "" && word[0] != '=' && strings.Trim(word, plain) == "" {
		return word
	}
	if word == Printable(word) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var quoted strings.Builder
	quoted.WriteString("$'")
	for rest := strings.ReplaceAll(word, "\x00", "\ufffd"); rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if invalid := r == utf8.RuneError && size == 1; invalid || !printable(r) || r == '\'' || r == '\\' {
			for _, b := range []byte(rest[:size]) {
				fmt.Fprintf(&quoted, `\%03o`, b)
			}
		} else {
			quoted.WriteRune(r)
		}
		rest = rest[size:]
	}
	quoted.WriteString("'")
	return quoted.String()
}
