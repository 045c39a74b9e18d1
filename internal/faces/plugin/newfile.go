package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// newFile is a file that appears only when it is complete. Until then, its content is in a temporary
// file in the same directory. Only its owner can read it.
type newFile struct {
	*os.File

	path      string
	overwrite bool
}

var errExists = errors.New("the file exists")

// createFile starts to write a file. It returns an error if the file exists, unless overwrite is true.
func createFile(path string, overwrite bool) (*newFile, error) {
	switch info, err := os.Lstat(path); {
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", errUsage, path)
	case err == nil && !overwrite:
		return nil, exists(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp") // with mode 0600
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return &newFile{File: file, path: path, overwrite: overwrite}, nil
}

func exists(path string) error {
	return fmt.Errorf("%w: %s; choose another name", errExists, path)
}

// commit gives the complete file its name.
func (f *newFile) commit() error {
	err := f.Sync()
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = f.publish()
	}
	if err != nil && !errors.Is(err, errExists) {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return err
}

func (f *newFile) publish() error {
	if f.overwrite {
		return os.Rename(f.Name(), f.path)
	}
	// A link fails if the file was created in the meantime, but not all file systems have links.
	err := os.Link(f.Name(), f.path)
	if errors.Is(err, fs.ErrExist) {
		return exists(f.path)
	}
	if err == nil {
		return nil // discard removes the other name
	}
	if _, found := os.Lstat(f.path); found == nil {
		return exists(f.path)
	}
	return os.Rename(f.Name(), f.path)
}

// discard removes the temporary file if there is one.
func (f *newFile) discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
