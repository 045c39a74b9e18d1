// Package snapshot keeps the last good records of a token server in a file, so that one
// that is restarted while the API server is away can serve again.
//
// The file holds private keys: it belongs into a volume that is memory, such as an emptyDir
// of medium Memory, and goes with the pod.
package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

const (
	fileName = "records"
	// slack is by how much a file may outgrow what it began with and a quarter before it is
	// written anew: then a change costs the same however many records there are.
	slack = 1 << 20
)

// errDamaged says that a file can't be what this package wrote.
var errDamaged = errors.New("the snapshot is damaged")

// Records are what a snapshot holds: records as Secrets with name, creation time, resource
// version and data, and the resource version that they come to.
type Records struct {
	Secrets []*corev1.Secret
	Version string
}

// Log is the file: every change is appended to it. After an error nothing is kept, until
// Replace, since an old state must never pass for the last. It is for one goroutine.
type Log struct {
	path    string
	file    *os.File // nil: nothing is kept
	size    int64
	full    int64  // the size at which the file is written anew
	version string // what the file comes to
}

// Open returns the log in a directory, and what it holds; no Secrets when there was none.
//
// An error leaves the log usable, and empty: the file could not be read or was damaged.
func Open(dir string) (*Log, Records, error) {
	l := &Log{path: filepath.Join(dir, fileName)}
	file, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return l, Records{}, nil
	}
	if err != nil {
		return l, Records{}, fmt.Errorf("opening the snapshot: %w", err)
	}
	latest := map[string]*corev1.Secret{}
	end, err := scan(file, func(f frame) error {
		l.version = f.secret.ResourceVersion
		switch f.kind {
		case written:
			latest[f.secret.Name] = f.secret
		case removed:
			delete(latest, f.secret.Name)
		case reached:
		}
		return nil
	})
	if err == nil {
		err = l.use(file, end)
	}
	if err != nil {
		err = l.abandon(fmt.Errorf("reading the snapshot: %w", errors.Join(err, file.Close())))
		return l, Records{}, err
	}
	records := Records{Version: l.version}
	for _, secret := range latest {
		records.Secrets = append(records.Secrets, secret)
	}
	return l, records, nil
}

// Write keeps a new or changed record.
func (l *Log) Write(secret *corev1.Secret) error { return l.append(written, secret) }

// Remove forgets the record of that name.
func (l *Log) Remove(secret *corev1.Secret) error {
	gone := &corev1.Secret{}
	gone.Name, gone.ResourceVersion = secret.Name, secret.ResourceVersion
	return l.append(removed, gone)
}

func (l *Log) append(k kind, secret *corev1.Secret) error {
	if l.file == nil {
		return nil
	}
	whole, err := newFrame(k, secret)
	if err != nil {
		return l.abandon(err)
	}
	if _, err := l.file.Write(whole); err != nil {
		return l.abandon(fmt.Errorf("writing the snapshot: %w", err))
	}
	l.size += int64(len(whole))
	l.version = secret.ResourceVersion
	if l.size > l.full {
		return l.compact()
	}
	return nil
}

// Replace keeps these records instead of all before, but for those that keep holds the
// names of: of them it keeps what it has.
func (l *Log) Replace(records Records, keep map[string]bool) error {
	return l.rewrite(records.Version, func(to io.Writer) error {
		if l.file != nil && len(keep) > 0 {
			if err := l.copyLatest(to, func(name string) bool { return keep[name] }); err != nil {
				return err
			}
		}
		for _, secret := range records.Secrets {
			if err := writeFrame(to, written, secret); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close ends the use of the file, which stays.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close()
}

// use goes on with a file that is good up to end.
func (l *Log) use(file *os.File, end int64) error {
	if err := file.Truncate(end); err != nil {
		return err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return err
	}
	l.file, l.size, l.full = file, end, end+end/4+slack
	return nil
}

// abandon removes the file, which is no longer the last state, and returns err.
func (l *Log) abandon(err error) error {
	return errors.Join(err, l.Close(), ignoreNotExist(os.Remove(l.path)))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
