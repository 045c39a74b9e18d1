// Package filelock locks files and directories against other processes. The kernel releases
// a lock when the last process that has the file open exits or crashes, so a lock never
// outlives its owner. A child process that inherits the file also holds the lock.
package filelock

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// held references locked files, because the garbage collector closes and thereby unlocks
// unreachable files.
var held sync.Map

// Lock is an acquired lock.
type Lock struct{ file *os.File }

// Try locks path, or returns ErrLocked if another process holds the lock. It creates a file
// if path doesn't exist.
func Try(path string) (Lock, error) { return acquire(path, syscall.LOCK_EX|syscall.LOCK_NB) }

// Wait locks path and waits while another process holds the lock. It creates a file if path
// doesn't exist.
func Wait(path string) (Lock, error) { return acquire(path, syscall.LOCK_EX) }

func acquire(path string, how int) (Lock, error) {
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

// File returns the locked file, which a child process can inherit.
func (l Lock) File() *os.File { return l.file }

// Release releases this process's lock. It keeps the file, because another process may just
// have opened it and would then lock a removed file. Releasing the zero Lock does nothing.
func (l Lock) Release() {
	if l.file == nil {
		return
	}
	held.Delete(l.file)
	l.file.Close()
}
