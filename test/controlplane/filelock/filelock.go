// Package filelock locks files and directories against other processes. The kernel
// drops a lock with the last process that holds the file open, however that ends, so
// a lock never outlives its owner. A child that inherits the file holds it too.
package filelock

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// ErrLocked means that another holds the lock.
var ErrLocked = errors.New("locked by another process")

// held keeps locked files from being garbage-collected, and so closed and unlocked,
// while their owner goes on without looking at them.
var held sync.Map

// Lock is a held lock.
type Lock struct{ file *os.File }

// Try takes the lock on path or fails with ErrLocked. A file is made when path doesn't
// exist.
func Try(path string) (Lock, error) { return take(path, syscall.LOCK_EX|syscall.LOCK_NB) }

// Wait takes the lock on path as soon as nobody else holds it. A file is made when
// path doesn't exist.
func Wait(path string) (Lock, error) { return take(path, syscall.LOCK_EX) }

func take(path string, how int) (Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if errors.Is(err, syscall.EISDIR) {
		file, err = os.Open(path)
	}
	if err != nil {
		return Lock{}, err
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return Lock{}, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	held.Store(file, nil)
	return Lock{file}, nil
}

// File is the locked file, for a child process to inherit.
func (l Lock) File() *os.File { return l.file }

// Release gives up this process's hold. The file stays: one who opened it just before
// it was removed would hold a lock that nobody else sees. The zero Lock is released.
func (l Lock) Release() {
	if l.file == nil {
		return
	}
	held.Delete(l.file)
	l.file.Close()
}
