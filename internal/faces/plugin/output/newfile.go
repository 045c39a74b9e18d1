package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NewFile is a file that appears only when it is complete. Until then, its content is in a temporary
// file in the same directory. Only its owner can read it.
type NewFile struct {
	*os.File

	path      string
	overwrite bool
}

// ErrExists means that a file isn't overwritten.
var ErrExists = errors.New("the file exists")

// CreateFile starts to write a file. It returns an error if the file exists, unless overwrite is true.
func CreateFile(path string, overwrite bool) (*NewFile, error) {
	switch info, err := os.Lstat(path); {
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrUsage, path)
	case err == nil && !overwrite:
		return nil, exists(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp") // with mode 0600
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return &NewFile{File: file, path: path, overwrite: overwrite}, nil
}

func exists(path string) error {
	return fmt.Errorf("%w: %s; choose another name", ErrExists, path)
}

// Commit gives the complete file its name.
func (f *NewFile) Commit() error {
	err := f.Sync()
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = f.publish()
	}
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return err
}

func (f *NewFile) publish() error {
	if f.overwrite {
		return os.Rename(f.Name(), f.path)
	}
	// A link fails if the file was created in the meantime, but not all file systems have links.
	err := os.Link(f.Name(), f.path)
	if errors.Is(err, fs.ErrExist) {
		return exists(f.path)
	}
	if err == nil {
		return nil // Discard removes the other name
	}
	if _, found := os.Lstat(f.path); found == nil {
		return exists(f.path)
	}
	return os.Rename(f.Name(), f.path)
}

// Discard removes the temporary file if there is one.
func (f *NewFile) Discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
