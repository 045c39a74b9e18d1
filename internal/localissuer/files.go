package localissuer

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// Files names the files with objects, as the flags -f and -R of kubectl apply do.
type Files struct {
	// Names are files, directories, or "-" for standard input.
	Names     []string
	Recursive bool
	// Namespace is the namespace of objects that have none.
	Namespace string
}

// document is an object and the file that contains it.
type document struct {
	file   string
	object *unstructured.Unstructured
}

// read returns the objects in the order in which kubectl applies them.
func (f Files) read() ([]document, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().
		FilenameParam(false, &resource.FilenameOptions{Filenames: f.Names, Recursive: f.Recursive}).
		Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	documents := make([]document, 0, len(infos))
	for _, info := range infos {
		if object, ok := info.Object.(*unstructured.Unstructured); ok {
			documents = append(documents, document{info.Source, object})
		}
	}
	return documents, nil
}

// pollInterval is the time between two checks of the files. Notifications of the kernel would be
// cheaper, but file systems that are shared with virtual machines or containers often don't deliver
// them.
const pollInterval = 250 * time.Millisecond

// version identifies the content of a file.
type version struct {
	modified time.Time
	size     int64
}

// watch sends a value to changed after files have changed and then stayed the same for one interval,
// so that files are not read while they are being written. It returns when ctx is done. loaded are
// the versions that have been read.
func (f Files) watch(ctx context.Context, loaded map[string]version, changed chan<- struct{}) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	previous := loaded
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		current := f.versions()
		if !same(current, loaded) && same(current, previous) {
			select {
			case changed <- struct{}{}:
				loaded = current
			case <-ctx.Done():
			}
		}
		previous = current
	}
}

// versions returns the versions of all files by path. It omits files that it can't access.
func (f Files) versions() map[string]version {
	all := map[string]version{}
	for _, name := range f.Names {
		_ = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // The next read reports it.
			}
			if entry.IsDir() {
				if path != name && !f.Recursive {
					return fs.SkipDir
				}
				return nil
			}
			if info, err := os.Stat(path); err == nil {
				all[path] = version{info.ModTime(), info.Size()}
			}
			return nil
		})
	}
	return all
}

func same(a, b map[string]version) bool {
	if len(a) != len(b) {
		return false
	}
	for path, v := range a {
		if other, ok := b[path]; !ok || !other.modified.Equal(v.modified) || other.size != v.size {
			return false
		}
	}
	return true
}

// fileError is an error about an object in a file.
type fileError struct {
	file string
	err  error
}

func (e fileError) Error() string {
	return fmt.Sprintf("%s: %v", cmp.Or(e.file, "standard input"), e.err)
}

func (e fileError) Unwrap() error { return e.err }
