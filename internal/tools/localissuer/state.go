package localissuer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
)

// state is the file in --state-dir. It contains the objects of the API in memory, among them private keys
// and client secrets.
type state struct {
	path  string // empty: only in memory
	saved []byte
}

// content is the content of the file.
type content struct {
	Objects []*unstructured.Unstructured `json:"objects"`
}

// authorityLifetime is long because workloads hold copies of the CA certificate.
const authorityLifetime = 10 * 365 * 24 * time.Hour

const (
	stateFile = "state.json"
	lockFile  = "lock"
)

var (
	errInUse       = errors.New("another process uses the directory")
	errNoAuthority = errors.New("it contains no certificate authority")
)

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

// openObjects returns the objects of the state in dir, or an API with a new CA. The directory must exist.
func openObjects(ctx context.Context, dir, namespace string) (*objects, *state, error) {
	s := &state{}
	if dir != "" {
		s.path = filepath.Join(dir, stateFile)
		encoded, err := os.ReadFile(s.path)
		if err == nil {
			o, err := decodeObjects(encoded, namespace)
			if err != nil {
				return nil, nil, fmt.Errorf("reading --state-dir: %s: %w; delete the file to start with new keys", s.path, err)
			}
			return o, s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("reading --state-dir: %w", err)
		}
	}
	o, err := newObjects(namespace, nil)
	if err == nil {
		err = o.createAuthority(ctx)
	}
	return o, s, err
}

func decodeObjects(encoded []byte, namespace string) (*objects, error) {
	var c content
	if err := json.Unmarshal(encoded, &c); err != nil {
		return nil, err
	}
	for _, object := range c.Objects {
		forgetReady(object)
	}
	o, err := newObjects(namespace, c.Objects)
	if err == nil {
		_, err = o.authority()
	}
	return o, err
}

// forgetReady removes the Ready condition of an object, which is that of an earlier process. The object
// is in progress until the operator has written it again.
func forgetReady(object *unstructured.Unstructured) {
	conditions, found, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if !found || err != nil {
		return
	}
	conditions = slices.DeleteFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == string(v1beta1.ConditionReady)
	})
	_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions") // It was there.
}

// createAuthority creates the Secret with the CA of the token server.
func (o *objects) createAuthority(ctx context.Context) error {
	ca, err := pki.NewCA(nil, authorityLifetime, time.Now(), rand.Reader)
	if err != nil {
		return err
	}
	secret, err := toUnstructured((&authority.Authority{Current: ca}).Secret(systemNamespace, nil))
	if err != nil {
		return err
	}
	_, err = o.store.Create(ctx, secret, memory.WriteOptions{Manager: "local-issuer"})
	return err
}

func toUnstructured(from any) (*unstructured.Unstructured, error) {
	encoded, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	err = object.UnmarshalJSON(encoded)
	return object, err
}

// authority returns the CA of the token server.
func (o *objects) authority() (*pki.CA, error) {
	secret := o.secret(systemNamespace, authority.SecretName)
	if secret == nil {
		return nil, errNoAuthority
	}
	return pki.ParseCA(pki.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]})
}

// save writes the objects if they have changed, without Leases and reports of uses, which belong to this
// process.
func (s *state) save(store *memory.Store) error {
	if s.path == "" {
		return nil
	}
	c := content{Objects: slices.DeleteFunc(store.Objects(), func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "Lease" || object.GetKind() == "ConfigMap"
	})}
	encoded, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if bytes.Equal(encoded, s.saved) {
		return nil
	}
	if err := replaceFile(s.path, encoded); err != nil {
		return fmt.Errorf("writing --state-dir: %w", err)
	}
	s.saved = encoded
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
