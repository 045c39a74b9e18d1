package backup

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// Reader reads a backup. It keeps no entry in memory.
type Reader struct {
	// Header is the header of the backup.
	Header Header

	source *source
	lines  *bufio.Reader
	counts Counts
}

// NewReader decrypts a backup with one of the identities and reads its header.
//
// Errors: ErrNotBackup, ErrIdentity, ErrDamaged, ErrVersion.
func NewReader(in io.Reader, identities ...age.Identity) (*Reader, error) {
	source := &source{in: in}
	decrypted, err := age.Decrypt(source, identities...)
	noMatch := &age.NoIdentityMatchError{}
	switch {
	case source.err != nil:
		return nil, fmt.Errorf("reading the backup: %w", source.err)
	case errors.As(err, &noMatch):
		return nil, ErrIdentity
	case err != nil && bytes.HasPrefix(source.start, []byte(magic)):
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	case err != nil:
		return nil, ErrNotBackup
	}
	r := &Reader{source: source, lines: bufio.NewReaderSize(decrypted, 64<<10)}
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	return r, nil
}

// magic is the start of every file that is encrypted with age.
const magic = "age-encryption.org/"

// source keeps the start of a file and the error of a read, to tell a file that can't be read from a
// damaged one.
type source struct {
	in    io.Reader
	start []byte
	err   error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if missing := len(magic) - len(s.start); missing > 0 {
		s.start = append(s.start, p[:min(n, missing)]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (r *Reader) readHeader() error {
	first, err := r.readLine()
	if err != nil {
		return err
	}
	if json.Unmarshal(first, &r.Header) != nil || r.Header.Format != format {
		return ErrNotBackup
	}
	if r.Header.Version != Version {
		return fmt.Errorf("%w: it has version %d, and this plugin reads version %d", ErrVersion, r.Header.Version, Version)
	}
	return nil
}

// Next returns the next entry. It returns io.EOF after the last one, and only if the backup is
// complete.
//
// Errors: ErrDamaged.
func (r *Reader) Next() (Entry, error) {
	read, err := r.readLine()
	if err != nil {
		return Entry{}, err
	}
	var l line
	if err := json.Unmarshal(read, &l); err != nil {
		return Entry{}, fmt.Errorf("%w (a line is not JSON)", ErrDamaged)
	}
	switch {
	case l.End != nil && l.Entry == nil:
		return Entry{}, r.end(*l.End)
	case l.End != nil || l.Entry == nil || !r.counts.add(l.Kind):
		return Entry{}, fmt.Errorf("%w (a line is not an entry)", ErrDamaged)
	}
	return *l.Entry, nil
}

// end checks the trailer, and that nothing follows it.
func (r *Reader) end(want Counts) error {
	if r.counts != want {
		return fmt.Errorf("%w (entries are missing)", ErrDamaged)
	}
	if _, err := r.lines.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (data follows the last line)", ErrDamaged)
	}
	return io.EOF
}

// readLine returns the next line without its line break. A file that ends before the trailer is
// damaged.
func (r *Reader) readLine() ([]byte, error) {
	var read []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		read = append(read, part...)
		switch {
		case r.source.err != nil:
			return nil, fmt.Errorf("reading the backup: %w", r.source.err)
		case err == nil:
			return bytes.TrimSuffix(read, []byte("\n")), nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w (its end is missing)", ErrDamaged)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		case len(read) > maxLine:
			return nil, fmt.Errorf("%w (a line is too long)", ErrDamaged)
		}
	}
}
