package tokenagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// File is a file with a token. Its modification time is when the token expires, so that everyone can see that,
// whatever the format, and without looking into the token, which is for APIs only (RFC 9068, section 6).
type File struct {
	Path   string
	Format Format
	// Mode are the permissions. The owner is the user of this process, and the group that of the directory, if that
	// has the setgid bit, as volumes with an fsGroup have.
	Mode fs.FileMode
}

// Write replaces the file. A reader sees either the former content or the new one, even if it opens the file at the
// same moment. The content isn't synced to a disk: after a crash of the machine, the Pod and its volume are gone.
func (f File) Write(token Token) error {
	if info, err := os.Stat(f.Path); err == nil && info.IsDir() {
		return fail(codeOutput, nil, "%s is a directory: --output is the path of a file in it", f.Path)
	}
	content, err := f.Format.encode(token)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(f.Path), ".token-")
	if err != nil {
		return f.failed("write", err)
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(f.Mode), temporary.Close())
	if err == nil {
		err = os.Chtimes(temporary.Name(), token.Expires, token.Expires)
	}
	if err == nil {
		err = os.Rename(temporary.Name(), f.Path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return f.failed("write", err)
	}
	return nil
}

// Remove removes the file. There needn't be one.
func (f File) Remove() error {
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.failed("remove", err)
	}
	return nil
}

func (f File) failed(verb string, err error) error {
	return fail(codeOutput, err, "cannot %s %s: %v: the directory must be a writable volume with free space", verb, f.Path, withoutPath(err))
}

// Expires returns when the token in the file expires, or zero if there is no file.
func (f File) Expires() time.Time {
	info, err := os.Stat(f.Path)
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}

var errNoToken = errors.New("no valid token yet")

// Check returns an error if there is no file, or if its token has expired.
func (f File) Check(now time.Time) error {
	info, err := os.Stat(f.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoToken, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", errNoToken, f.Path)
	}
	if expires := info.ModTime(); !now.Before(expires) {
		return fmt.Errorf("%w: that in %s expired at %s", errNoToken, f.Path, expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// Format is what a file contains.
type Format string

// The formats.
const (
	FormatToken          Format = "token"           // only the token
	FormatEnvoySDS       Format = "envoy-sds"       // a secret of Envoy with the name "token"
	FormatExecCredential Format = "exec-credential" // what an exec plugin of client-go prints
)

var errFormat = errors.New("it must be token, envoy-sds, or exec-credential")

// ParseFormat returns the format with a name.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case FormatToken, FormatEnvoySDS, FormatExecCredential:
		return f, nil
	}
	return "", errFormat
}

func (f Format) encode(token Token) ([]byte, error) {
	switch f {
	case FormatEnvoySDS:
		return json.Marshal(map[string]any{"resources": []any{map[string]any{
			"@type":          "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
			"name":           "token",
			"generic_secret": map[string]any{"secret": map[string]any{"inline_string": token.Value}},
		}}})
	case FormatExecCredential:
		return json.Marshal(map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1",
			"kind":       "ExecCredential",
			"status": map[string]any{
				"token": token.Value,
				// Clients read the file again from then on, when it has the next token.
				"expirationTimestamp": token.Expires.Add(-token.Lifetime / 10).UTC().Format(time.RFC3339),
			},
		})
	case FormatToken:
	}
	return []byte(token.Value), nil // Not every reader ignores a line break.
}
