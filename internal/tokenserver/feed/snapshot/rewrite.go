package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// compact writes the file anew with what counts of it: the last of each record.
func (l *Log) compact() error {
	return l.rewrite(l.version, func(to io.Writer) error {
		return l.copyLatest(to, func(string) bool { return true })
	})
}

// rewrite puts a new file in the place of the old one, whole or not at all. It comes to version.
func (l *Log) rewrite(version string, write func(io.Writer) error) error {
	file, err := os.OpenFile(l.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return l.abandon(fmt.Errorf("writing the snapshot anew: %w", err))
	}
	if err := l.fill(file, version, write); err != nil {
		return l.abandon(fmt.Errorf("writing the snapshot anew: %w",
			errors.Join(err, file.Close(), ignoreNotExist(os.Remove(file.Name())))))
	}
	return nil
}

// fill writes file, renames it into its place and goes on with it.
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

// copyLatest writes the last frame of each record that is still there and wanted. It reads
// the file twice rather than hold it in memory.
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
		if at, there := last[f.secret.Name]; f.kind != written || !there || at != f.offset {
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
