package untrusted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// EscapeJSON escapes the characters in a JSON text that Printable replaces, except line breaks. Unlike
// Printable, it doesn't change what the text means to a program.
func EscapeJSON(encoded []byte) []byte {
	return escape(encoded, func(r rune) string {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// escape calls long for characters that don't have an escape with four digits.
func escape(encoded []byte, long func(rune) string) []byte {
	escaped := make([]byte, 0, len(encoded))
	for _, r := range string(encoded) {
		switch {
		case printable(r) || r == '\n':
			escaped = utf8.AppendRune(escaped, r)
		case r > 0xffff:
			escaped = append(escaped, long(r)...)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	return escaped
}

// MarshalJSON encodes a value as indented JSON in which everything is printable.
func MarshalJSON(value any) ([]byte, error) {
	encoded, err := indented(value)
	return EscapeJSON(encoded), err
}

func indented(value any) ([]byte, error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return encoded.Bytes(), err
}

// MarshalYAML encodes a value as YAML in which everything is printable. If that needs escapes, the
// result is in the flow style of YAML, like JSON, because only double-quoted scalars can contain
// escapes. YAML has no surrogates, but escapes with eight digits.
func MarshalYAML(value any) ([]byte, error) {
	encoded, err := indented(value)
	if err != nil {
		return nil, err
	}
	encoded = escape(encoded, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
	converted, err := yaml.JSONToYAML(encoded)
	if err != nil {
		return nil, err
	}
	if text := strings.ReplaceAll(string(converted), "\n", ""); text != Printable(text) {
		return encoded, nil
	}
	return converted, nil
}
