// Package snapshot saves a token server's last known good records in a file. After a restart, the
// token server can serve them while the API server is unavailable.
//
// The file contains private keys. It must be on an in-memory volume that is deleted with the Pod,
// such as an emptyDir with medium Memory.
package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	fileName = "records"
	// slack is how much a file may grow before it is compacted, in addition to a quarter of its
	// initial size. The average cost of a change therefore does not depend on the number of
	// records.
	slack = 1 << 20
)

// errDamaged means that a file contains data that this package did not write.
var errDamaged = errors.New("the snapshot is damaged")

// State describes the content of a snapshot.
type State struct {
	// Version is the resource version of the whole list. If it is empty, there is no content.
	Version string
	// Current is when the records were last known to be current.
	Current time.Time
}

// Log is the snapshot file. Every change is appended to it. After an error, the file is deleted and
// nothing is saved until Commit is called, because a stale file must not be mistaken for the latest
// state. It is safe for concurrent use.
type Log struct {
	failed func(error) // is called with each error

	mu      sync.Mutex
	path    string   // if empty, nothing is saved
	file    *os.File // if nil, nothing is saved
	size    int64
	limit   int64  // size above which the file is compacted
	version string // resource version of the content
	list    *list  // nil unless a new list is being received
}

// Open opens the log in the given directory, or a log that saves nothing if the directory is empty. If
// there is no file, or if it can't be read, the state is empty. Read returns the content.
//
// No method returns an error, because none stops a token server. The log passes errors to failed
// instead, which must not call the log.
func Open(dir string, failed func(error)) (*Log, State) {
	l := &Log{failed: failed}
	if dir == "" {
		return l, State{}
	}
	l.path = filepath.Join(dir, fileName)
	file, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return l, State{}
	}
	if err != nil {
		l.abandon(fmt.Errorf("opening the snapshot: %w", err))
		return l, State{}
	}
	current, err := l.load(file)
	if err != nil {
		l.abandon(fmt.Errorf("reading the snapshot: %w", errors.Join(err, file.Close())))
		return l, State{}
	}
	l.Confirm(current) // opening the file must not make it look newer
	return l, State{Version: l.version, Current: current}
}

// load makes an existing file the current one, and returns its modification time.
func (l *Log) load(file *os.File) (time.Time, error) {
	// A later frame contains the version of the records in a batch, so load doesn't decompress batches.
	end, err := scan(file, func(k kind, content []byte) error {
		if k == batched {
			return nil
		}
		secret, err := decode(content)
		if err == nil {
			l.version = secret.ResourceVersion
		}
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	info, err := file.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), l.use(file, end)
}

// Read calls each with every wanted record, and reports whether it could read all of them. It reads the
// file twice instead of loading it into memory.
func (l *Log) Read(wanted func(name string) bool, each func(*corev1.Secret)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return false
	}
	err := l.latest(wanted, func(secret *corev1.Secret, _ []byte) error {
		each(secret)
		return nil
	})
	if err != nil {
		l.abandon(fmt.Errorf("reading the snapshot: %w", err))
	}
	return err == nil
}

// Write saves a new or updated record.
func (l *Log) Write(secret *corev1.Secret) { l.append(written, secret) }

// Remove removes the record with the Secret's name.
func (l *Log) Remove(secret *corev1.Secret) {
	deleted := &corev1.Secret{}
	deleted.Name, deleted.ResourceVersion = secret.Name, secret.ResourceVersion
	l.append(removed, deleted)
}

// Confirm saves that the records were still current at the given time. The modification time of the
// file holds it. If it can't be saved, the records appear older than they are, which is safe.
func (l *Log) Confirm(current time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = os.Chtimes(l.path, current, current)
	}
}

func (l *Log) append(k kind, secret *corev1.Secret) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	whole, err := newFrame(k, secret)
	if err == nil {
		_, err = l.file.Write(whole)
	}
	if err != nil {
		l.abandon(fmt.Errorf("writing the snapshot: %w", err))
		return
	}
	l.size += int64(len(whole))
	l.version = secret.ResourceVersion
	if l.size > l.limit {
		l.compact(func(string) bool { return true })
	}
}

// Delete deletes the file. From then on, nothing is saved.
func (l *Log) Delete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path == "" {
		return
	}
	l.discard()
	if err := errors.Join(l.closeFile(), l.remove()); err != nil {
		l.failed(fmt.Errorf("deleting the snapshot: %w", err))
	}
	l.path = ""
}

// remove removes the file if it exists.
func (l *Log) remove() error {
	err := os.Remove(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (l *Log) closeFile() error {
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close()
}

// use makes file the current file. Its content is valid up to end.
func (l *Log) use(file *os.File, end int64) error {
	if err := file.Truncate(end); err != nil {
		return err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return err
	}
	l.file, l.size, l.limit = file, end, end+end/4+slack
	return nil
}

// abandon reports an error and deletes the file, which is now stale.
func (l *Log) abandon(err error) {
	l.failed(errors.Join(err, l.closeFile(), l.remove()))
}
