package backup

import (
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// Source is a backup that can be read several times, because it is too large for memory.
type Source struct {
	File       io.ReadSeeker
	Identities []age.Identity
}

// Check reads the backup to its end and checks every entry, as the function Check does.
func (s *Source) Check() (*Contents, error) {
	r, err := s.reader()
	if err != nil {
		return nil, err
	}
	return Check(r)
}

// Each calls visit for every entry of the given kinds, kind by kind in the given order.
func (s *Source) Each(visit func(*Entry) error, kinds ...Kind) error {
	for _, kind := range kinds {
		if err := s.each(visit, kind); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) each(visit func(*Entry) error, kind Kind) error {
	r, err := s.reader()
	if err != nil {
		return err
	}
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry.Kind != kind {
			continue
		}
		if err := visit(&entry); err != nil {
			return err
		}
	}
}

// reader reads the backup from its start.
func (s *Source) reader() (*Reader, error) {
	if _, err := s.File.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the backup: %w; pass it on standard input, with the file name -", err)
	}
	return NewReader(s.File, s.Identities...)
}
