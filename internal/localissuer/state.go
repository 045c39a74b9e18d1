package localissuer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

// state is what a cluster stores in addition to the objects in files. It contains private keys and
// client secrets.
type state struct {
	Authority certificate.Pair `json:"authority"`
	// UIDs contains the UIDs of objects. An object that is removed and added again gets a new one.
	UIDs map[string]types.UID `json:"uids"`
	// Records contains the records by name.
	Records map[string]*corev1.Secret `json:"records"`
	// Credentials contains the credentials Secrets by namespace and name.
	Credentials map[string]*corev1.Secret `json:"credentials"`

	ca    *certificate.CA // Authority
	path  string          // empty: only in memory
	saved []byte
}

// authorityLifetime is long because workloads hold copies of the CA certificate.
const authorityLifetime = 10 * 365 * 24 * time.Hour

const (
	stateFile = "state.json"
	lockFile  = "lock"
)

var errInUse = errors.New("another process uses the directory")

// lockState prevents other processes from using dir until unlock is called or this process ends. If
// another process uses it, the error wraps errInUse.
func lockState(dir string) (unlock func(), err error) {
	if dir == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating --state-dir: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("%w; stop that process, or choose another directory", errInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("locking --state-dir %s: %w", dir, err)
	}
	return func() { _ = lock.Close() }, nil
}

// openState reads the state in dir, or creates one. The directory must exist.
func openState(dir string, now time.Time, random io.Reader) (*state, error) {
	s := &state{UIDs: map[string]types.UID{}, Records: map[string]*corev1.Secret{}, Credentials: map[string]*corev1.Secret{}}
	if dir != "" {
		s.path = filepath.Join(dir, stateFile)
		content, err := os.ReadFile(s.path)
		if err == nil {
			err = json.Unmarshal(content, s)
			if err == nil {
				s.ca, err = certificate.ParseCA(s.Authority)
			}
			if err != nil {
				return nil, fmt.Errorf("reading --state-dir: %s: %w; delete the file to start with new keys", s.path, err)
			}
			return s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading --state-dir: %w", err)
		}
	}
	ca, err := certificate.NewCA(nil, authorityLifetime, now, random)
	if err != nil {
		return nil, err
	}
	s.ca, s.Authority = ca, ca.Pair
	return s, nil
}

// uid returns the UID of an object.
func (s *state) uid(k key) types.UID {
	uid, ok := s.UIDs[k.String()]
	if !ok {
		uid = newUID()
		s.UIDs[k.String()] = uid
	}
	return uid
}

func (s *state) forget(k key) { delete(s.UIDs, k.String()) }

// save writes the state if it has changed.
func (s *state) save() error {
	if s.path == "" {
		return nil
	}
	content, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if bytes.Equal(content, s.saved) {
		return nil
	}
	if err := replaceFile(s.path, content); err != nil {
		return fmt.Errorf("writing --state-dir: %w", err)
	}
	s.saved = content
	return nil
}

// replaceFile writes a file that only its owner can read. Readers see either the old or the new
// content.
func replaceFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails after the rename
	_, err = file.Write(content)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
