package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// Writer writes a backup. It keeps only the names and UIDs of the entries in memory.
type Writer struct {
	header    Header
	encrypted io.WriteCloser
	index     *index
}

// NewWriter writes the header of a backup to out, encrypted to the recipients. It sets the format and
// version of the header.
//
// Errors: an error of out, and an error of age if the recipients can't be combined.
func NewWriter(out io.Writer, header Header, recipients ...age.Recipient) (*Writer, error) {
	encrypted, err := age.Encrypt(out, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypting the backup: %w", err)
	}
	header.Format, header.Version = format, Version
	w := &Writer{header: header, encrypted: encrypted, index: newIndex()}
	if err := w.writeLine(header); err != nil {
		return nil, err
	}
	return w, nil
}

// Write writes an entry. Objects come before their records. A record that returns ErrOrphan or
// record.ErrUnreadable is not written, and the backup can be continued.
func (w *Writer) Write(entry Entry) error {
	if err := w.index.add(&entry); err != nil {
		return err
	}
	return w.writeLine(line{Entry: &entry})
}

// Close writes the trailer and ends the encryption. A backup without it is damaged. Close doesn't
// close the underlying writer.
func (w *Writer) Close() (*Contents, error) {
	if err := w.writeLine(line{End: &w.index.counts}); err != nil {
		return nil, err
	}
	if err := w.encrypted.Close(); err != nil {
		return nil, fmt.Errorf("writing the backup: %w", err)
	}
	return w.index.contents(w.header), nil
}

func (w *Writer) writeLine(value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the backup: %w", err)
	}
	if len(encoded) >= maxLine {
		return fmt.Errorf("%w: more than %d bytes", errTooLong, maxLine)
	}
	if _, err := w.encrypted.Write(append(encoded, '\n')); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

var errTooLong = errors.New("an entry of the backup is too long")
