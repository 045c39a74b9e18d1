package migration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// ErrDamaged means that a file is incomplete, or isn't an export of the system.
var ErrDamaged = errors.New("damaged or unexpected input")

// Text returns the content of a file without its byte order mark.
//
// The error is ErrDamaged if the content is not UTF-8, such as the UTF-16 that PowerShell writes.
// Replacing what isn't would change names.
func Text(file []byte) ([]byte, error) {
	if !utf8.Valid(file) {
		return nil, fmt.Errorf("%w: the file must be encoded as UTF-8", ErrDamaged)
	}
	return bytes.TrimPrefix(file, []byte("\xef\xbb\xbf")), nil
}

// Values returns the JSON values in a file, one after the other. The file must be UTF-8, and
// must not be empty.
//
// The error is ErrDamaged. It contains no part of the file, because that could be a secret.
func Values(file []byte) ([]json.RawMessage, error) {
	file, err := Text(file)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	var values []json.RawMessage
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF) && len(values) > 0:
			return values, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: the file is empty", ErrDamaged)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%w: the JSON ends too early, after %d bytes; export the clients again", ErrDamaged, len(file))
		case err != nil:
			return nil, fmt.Errorf("%w: the file is not JSON after byte %d", ErrDamaged, decoder.InputOffset())
		}
		values = append(values, value)
	}
}

// Decode decodes a value. Members that target doesn't have are ignored. The names of members are
// case-sensitive, and none may appear twice, so that everyone who reads the file understands the same.
//
// The error is ErrDamaged. It names the member, but contains no part of its value.
func Decode(value json.RawMessage, target any) error {
	duplicates, err := kjson.UnmarshalStrict(value, target, kjson.DisallowDuplicateFields)
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if typed.Field == "" {
			return fmt.Errorf("%w: it must be %s", ErrDamaged, kindOf(typed))
		}
		return fmt.Errorf("%w: the member %q must be %s", ErrDamaged, typed.Field, kindOf(typed))
	}
	if err != nil {
		return fmt.Errorf("%w: a member has an unexpected value", ErrDamaged)
	}
	if len(duplicates) > 0 {
		return fmt.Errorf("%w: %w", ErrDamaged, duplicates[0])
	}
	return nil
}

func kindOf(err *json.UnmarshalTypeError) string {
	switch err.Type.Kind().String() {
	case "struct", "map":
		return "a JSON object"
	case "slice":
		return "a JSON array"
	case "string":
		return "a string"
	case "bool":
		return "true or false"
	}
	return "a number"
}
