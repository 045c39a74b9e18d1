package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// compact rewrites the file so that it contains only the latest version of each record.
func (l *Log) compact() error {
	return l.rewrite(l.version, func(to io.Writer) error {
		return l.copyLatest(to, func(string) bool { return true })
	})
}

// rewrite atomically replaces the file with a new one at the given resource version.
func (l *Log) rewrite(version string, write func(io.Writer) error) error {
	file, err := os.OpenFile(l.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return l.abandon(fmt.Errorf("rewriting the snapshot: %w", err))
	}
	if err := l.fill(file, version, write); err != nil {
		return l.abandon(fmt.Errorf("rewriting the snapshot: %w",
			errors.Join(err, file.Close(), ignoreNotExist(os.Remove(file.Name())))))
	}
	return nil
}

// fill writes the content of file, renames it to the final name and makes it the current file.
func (l *Log) fill(file *os.File, version string, write func(io.Writer) error) error {
	buffered := bufio.NewWriterSize(file, 64<<10)
	if _, err := buffered.WriteString(magic); err != nil {
		return err
	}
	if err := write(buffered); err != nil {
		return err
	}
	mark := &corev1.Secret{}
	mark.ResourceVersion = version
	if err := errors.Join(writeFrame(buffered, reached, mark), buffered.Flush()); err != nil {
		return err
	}
	end, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := os.Rename(file.Name(), l.path); err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	l.version = version
	return l.use(file, end)
}

// copyLatest writes the latest frame of each wanted record that has not been deleted. It reads the
// file twice instead of loading it into memory.
func (l *Log) copyLatest(to io.Writer, wanted func(name string) bool) error {
	last := map[string]int64{}
	if err := l.rescan(func(f frame) error {
		switch {
		case f.kind == written && wanted(f.secret.Name):
			last[f.secret.Name] = f.offset
		case f.kind == removed:
			delete(last, f.secret.Name)
		}
		return nil
	}); err != nil {
		return err
	}
	return l.rescan(func(f frame) error {
		if offset, ok := last[f.secret.Name]; f.kind != written || !ok || offset != f.offset {
			return nil
		}
		_, err := to.Write(f.bytes)
		return err
	})
}

func (l *Log) rescan(each func(frame) error) error {
	_, err := scan(io.NewSectionReader(l.file, 0, l.size), each)
	return err
}
