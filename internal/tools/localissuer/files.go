package localissuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
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

// stdin is the name of standard input.
const stdin = "-"

// extensions are those of the files that are read in directories.
var extensions = []string{".json", ".yaml", ".yml"}

var (
	errNoPath  = errors.New("does not exist")
	errNoFiles = errors.New("nothing to read")
)

// read returns the objects in the order in which kubectl applies them.
func (f Files) read() ([]document, error) {
	paths, err := f.paths()
	if err != nil {
		return nil, err
	}
	var documents []document
	for _, path := range paths {
		found, err := readFile(path)
		if err != nil {
			return nil, err
		}
		documents = append(documents, found...)
	}
	return documents, nil
}

// paths returns the files to read, and "-" for standard input. A file that is named can have any extension.
func (f Files) paths() ([]string, error) {
	var paths []string
	for _, name := range f.Names {
		if name == stdin {
			paths = append(paths, name)
			continue
		}
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the path %q %w", name, errNoPath)
		}
		err := f.walk(name, func(path string, err error) error {
			if err == nil && (path == name || slices.Contains(extensions, filepath.Ext(path))) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: no file in %s has the extension %s", errNoFiles, strings.Join(f.Names, ", "), strings.Join(extensions, " or "))
	}
	return paths, nil
}

// walk calls fn with each file of a name in lexical order, and with errors. It stops at the first error of fn.
func (f Files) walk(name string, fn func(path string, err error) error) error {
	return filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return fn(path, err)
		case path != name && !f.Recursive:
			return fs.SkipDir
		}
		return nil
	})
}

// readFile returns the objects in a file, and those in the lists in it.
func readFile(path string) ([]document, error) {
	file := os.Stdin
	if path == stdin {
		path = "standard input"
	} else {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	var documents []document
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var raw runtime.RawExtension
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, fmt.Errorf("error parsing %s: %w", path, err)
		case len(raw.Raw) == 0 || string(raw.Raw) == "null":
			continue
		}
		object, err := decode(raw.Raw)
		if err != nil {
			return nil, fmt.Errorf("unable to decode %q: %w", path, err)
		}
		if list, ok := object.(*unstructured.UnstructuredList); ok {
			for i := range list.Items {
				documents = append(documents, document{path, &list.Items[i]})
			}
		} else if object, ok := object.(*unstructured.Unstructured); ok {
			documents = append(documents, document{path, object})
		}
	}
}

// decode decodes an object or a list. The accessors of unstructured objects would ignore metadata of a wrong type.
func decode(raw []byte) (runtime.Object, error) {
	if err := json.Unmarshal(raw, &metav1.PartialObjectMetadata{}); err != nil {
		return nil, err
	}
	object, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
	return object, err
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
		_ = f.walk(name, func(path string, err error) error {
			if err != nil {
				return nil //nolint:nilerr // The next read reports it.
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
	return fmt.Sprintf("%s: %v", e.file, e.err)
}

func (e fileError) Unwrap() error { return e.err }
