package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// list is a new list of records that is being received. It is written to a separate file, so that
// the whole list is never in memory.
type list struct {
	file    *os.File
	records *batchWriter
	size    int
	err     error // the first error
}

// Begin begins a new list. It discards a list that was not committed.
func (l *Log) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path != "" {
		l.begin()
	}
}

func (l *Log) begin() {
	l.discard()
	l.list = &list{}
	l.list.file, l.list.err = os.OpenFile(l.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if l.list.err == nil {
		_, l.list.err = l.list.file.WriteString(magic)
	}
	if l.list.err == nil {
		l.list.records, l.list.err = newBatchWriter(l.list.file)
	}
}

// Add adds a record to the list. Commit reports the error, if there is one.
func (l *Log) Add(secret *corev1.Secret) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil || l.list.err != nil {
		return
	}
	record, err := encode(secret)
	if err == nil {
		err = l.list.records.add(record)
	}
	l.list.err = err
	l.list.size++
}

// Listed describes the list that Commit saves.
type Listed struct {
	Version string // resource version
	// Size is the number of records. If more records were added, some were removed before the list was
	// complete. Contains then reports which records remain.
	Size     int
	Contains func(name string) bool
	// Keep reports for which records the saved versions are retained; nil means for none.
	Keep func(name string) bool
}

var errIncomplete = errors.New("records of the list were not added")

// Commit replaces all records with those that were added since Begin.
func (l *Log) Commit(listed Listed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path == "" {
		return
	}
	if l.list == nil {
		l.abandon(errIncomplete)
		return
	}
	added := l.list.size
	switch {
	case l.list.err != nil:
	case added < listed.Size:
		l.list.err = errIncomplete
	case l.file != nil && listed.Keep != nil:
		l.list.err = l.copyLatest(l.list.records, listed.Keep)
	}
	if l.replace(listed.Version) && added > listed.Size {
		l.compact(func(name string) bool { return listed.Keep != nil && listed.Keep(name) || listed.Contains(name) })
	}
}

// Compact removes all versions of records except for the latest ones from the file.
func (l *Log) Compact() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.compact(func(string) bool { return true })
	}
}

// compact rewrites the file so that it contains only the latest version of each wanted record.
func (l *Log) compact(wanted func(name string) bool) {
	l.begin()
	if l.list.err == nil {
		l.list.err = l.copyLatest(l.list.records, wanted)
	}
	l.replace(l.version)
}

// replace makes the list the current content, and reports whether it could. Otherwise, there is no
// content.
func (l *Log) replace(version string) bool {
	err := l.complete(version)
	if err != nil {
		l.discard()
		l.abandon(fmt.Errorf("rewriting the snapshot: %w", err))
	}
	return err == nil
}

// complete completes the file of the list, renames it to the final name, and makes it the current
// file.
func (l *Log) complete(version string) error {
	if l.list.err != nil {
		return l.list.err
	}
	if err := l.list.records.flush(); err != nil {
		return err
	}
	mark := &corev1.Secret{}
	mark.ResourceVersion = version
	frame, err := newFrame(reached, mark)
	if err != nil {
		return err
	}
	file := l.list.file
	if _, err := file.Write(frame); err != nil {
		return err
	}
	end, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := os.Rename(file.Name(), l.path); err != nil {
		return err
	}
	l.list = nil
	if err := l.closeFile(); err != nil {
		return errors.Join(err, file.Close())
	}
	l.version = version
	return l.use(file, end)
}

// discard deletes the file of a list that was not committed.
func (l *Log) discard() {
	if l.list != nil && l.list.file != nil {
		_ = l.list.file.Close()
		_ = os.Remove(l.list.file.Name()) // the next list truncates it
	}
	l.list = nil
}

// copyLatest copies the latest version of each wanted record that has not been deleted. It reads the
// file twice instead of loading it into memory.
func (l *Log) copyLatest(to *batchWriter, wanted func(name string) bool) error {
	return l.latest(wanted, func(_ *corev1.Secret, encoded []byte) error { return to.add(encoded) })
}

// latest calls each with the latest version of each wanted record that has not been deleted.
func (l *Log) latest(wanted func(name string) bool, each func(secret *corev1.Secret, encoded []byte) error) error {
	last := map[string]int{} // positions in the order of walk
	position := 0
	if err := l.walk(func(k kind, secret *corev1.Secret, _ []byte) error {
		switch {
		case k == written && wanted(secret.Name):
			last[secret.Name] = position
		case k == removed:
			delete(last, secret.Name)
		}
		position++
		return nil
	}); err != nil {
		return err
	}
	position = 0
	return l.walk(func(k kind, secret *corev1.Secret, encoded []byte) error {
		at, ok := last[secret.Name]
		ok = ok && k == written && at == position
		position++
		if !ok {
			return nil
		}
		return each(secret, encoded)
	})
}

func (l *Log) walk(each func(kind, *corev1.Secret, []byte) error) error {
	_, err := walk(io.NewSectionReader(l.file, 0, l.size), each)
	return err
}
