//go:build cgo

package softhsm

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/miekg/pkcs11"
)

// Module is the path of the PKCS#11 library in Debian's package libsofthsm2.
const Module = "/usr/lib/softhsm/libsofthsm2.so"

const (
	tokenLabel = "key-encryption"
	keyLabel   = "key-encryption-key"
	tagBits    = 128
)

// ErrModule is returned if the PKCS#11 library can't be loaded.
var ErrModule = errors.New("cannot load SoftHSM; run make softhsm")

// Token is a SoftHSM token with key encryption keys.
type Token struct {
	dir     string
	mu      sync.Mutex // guards the session, which runs one operation at a time
	library *pkcs11.Ctx
	session pkcs11.SessionHandle
}

// key is a key encryption key. IDs are ordered by the time of the creation.
type key struct {
	id     string
	handle pkcs11.ObjectHandle
}

// Open opens the token in dir. If there is none, it creates a token with a random PIN and one key.
// A process can open only one token at a time.
func Open(module, dir string) (*Token, error) {
	if err := os.MkdirAll(filepath.Join(dir, "tokens"), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	configuration := filepath.Join(dir, "softhsm2.conf")
	if err := os.WriteFile(configuration, []byte("directories.tokendir = "+filepath.Join(dir, "tokens")+
		"\nobjectstore.backend = file\nlog.level = ERROR\n"), 0o600); err != nil {
		return nil, err
	}
	if err := os.Setenv("SOFTHSM2_CONF", configuration); err != nil {
		return nil, err
	}
	library := pkcs11.New(module)
	if library == nil {
		return nil, fmt.Errorf("%w: %s", ErrModule, module)
	}
	if err := library.Initialize(); err != nil {
		library.Destroy()
		return nil, fmt.Errorf("initialize %s: %w", module, err)
	}
	t := &Token{dir: dir, library: library}
	if err := t.login(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close releases the library. The token must not be used any longer.
func (t *Token) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.library.Finalize()
	t.library.Destroy()
	return err
}

// lock keeps other processes from changing the set of keys.
func lock(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return func() { file.Close() }, nil
}

func (t *Token) login() error {
	slot, found, err := t.slot()
	if err != nil {
		return err
	}
	if !found {
		if err := t.create(slot); err != nil {
			return fmt.Errorf("create the token: %w", err)
		}
		if slot, _, err = t.slot(); err != nil {
			return err
		}
	}
	pin, err := os.ReadFile(t.pinFile())
	if err != nil {
		return fmt.Errorf("read the PIN of the token: %w", err)
	}
	if t.session, err = t.library.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	if err := t.library.Login(t.session, pkcs11.CKU_USER, string(pin)); err != nil {
		return fmt.Errorf("log in to the token: %w", err)
	}
	keys, err := t.keys()
	if err == nil && len(keys) == 0 {
		_, err = t.generate(1)
	}
	return err
}

// slot returns the slot of the token, or an empty slot if there is no token.
func (t *Token) slot() (slot uint, found bool, err error) {
	slots, err := t.library.GetSlotList(true)
	if err != nil {
		return 0, false, fmt.Errorf("list the slots: %w", err)
	}
	for _, slot = range slots {
		info, err := t.library.GetTokenInfo(slot)
		if err != nil {
			return 0, false, fmt.Errorf("read slot %d: %w", slot, err)
		}
		if strings.TrimRight(info.Label, " \x00") == tokenLabel {
			return slot, true, nil
		}
	}
	return slot, false, nil // SoftHSM always has an empty slot, which comes last
}

func (t *Token) create(slot uint) error {
	administrator, pin := randomHex(16), randomHex(16)
	if err := os.WriteFile(t.pinFile(), []byte(pin), 0o600); err != nil {
		return err
	}
	if err := t.library.InitToken(slot, administrator, tokenLabel); err != nil {
		return err
	}
	slot, _, err := t.slot() // SoftHSM assigns a new slot to an initialized token
	if err != nil {
		return err
	}
	session, err := t.library.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	if err := t.library.Login(session, pkcs11.CKU_SO, administrator); err != nil {
		return errors.Join(err, t.library.CloseSession(session))
	}
	return errors.Join(t.library.InitPIN(session, pin), t.library.Logout(session), t.library.CloseSession(session))
}

func (t *Token) pinFile() string { return filepath.Join(t.dir, "pin") }

// Current returns the ID of the key that encrypts.
func (t *Token) Current() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	current, err := t.current()
	return current.id, err
}

// Rotate generates a key, which encrypts from now on, and returns its ID.
func (t *Token) Rotate() (string, error) {
	unlock, err := lock(t.dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	current, err := t.current()
	if err != nil {
		return "", err
	}
	var number int
	if _, err := fmt.Sscanf(current.id, "%06d-", &number); err != nil {
		return "", fmt.Errorf("parse key ID %q: %w", current.id, err)
	}
	return t.generate(number + 1)
}

// Prune destroys all keys except for the current one, and returns the number of destroyed keys.
func (t *Token) Prune() (int, error) {
	unlock, err := lock(t.dir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	keys, err := t.keys()
	if err != nil {
		return 0, err
	}
	old := keys[:max(len(keys)-1, 0)]
	for _, key := range old {
		if err := t.library.DestroyObject(t.session, key.handle); err != nil {
			return 0, fmt.Errorf("destroy key %s: %w", key.id, err)
		}
	}
	return len(old), nil
}

// Encrypt encrypts with AES-256-GCM and the current key. It returns the nonce, followed by the
// ciphertext and the tag, and the ID of the key.
func (t *Token) Encrypt(plaintext []byte) (ciphertext []byte, keyID string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	current, err := t.current()
	if err != nil {
		return nil, "", err
	}
	nonce := make([]byte, 12)
	rand.Read(nonce)
	params := pkcs11.NewGCMParams(nonce, []byte(current.id), tagBits)
	defer params.Free()
	if err := t.library.EncryptInit(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)}, current.handle); err != nil {
		return nil, "", fmt.Errorf("start to encrypt: %w", err)
	}
	sealed, err := t.library.Encrypt(t.session, plaintext)
	if err != nil {
		return nil, "", fmt.Errorf("encrypt: %w", err)
	}
	return append(nonce, sealed...), current.id, nil
}

// ErrKey is returned for a ciphertext of a key that the token doesn't have.
var ErrKey = errors.New("the token has no key with this ID")

// Decrypt reverses Encrypt.
func (t *Token) Decrypt(ciphertext []byte, keyID string) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys, err := t.keys()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(keys, func(k key) bool { return k.id == keyID })
	if i < 0 {
		return nil, fmt.Errorf("%w: %q", ErrKey, keyID)
	}
	if len(ciphertext) < 12+tagBits/8 {
		return nil, fmt.Errorf("decrypt: ciphertext of %d bytes is too short", len(ciphertext))
	}
	params := pkcs11.NewGCMParams(ciphertext[:12], []byte(keyID), tagBits)
	defer params.Free()
	if err := t.library.DecryptInit(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)}, keys[i].handle); err != nil {
		return nil, fmt.Errorf("start to decrypt: %w", err)
	}
	plaintext, err := t.library.Decrypt(t.session, ciphertext[12:])
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return plaintext, nil
}

func (t *Token) generate(number int) (string, error) {
	id := fmt.Sprintf("%06d-%s", number, randomHex(4))
	_, err := t.library.GenerateKey(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_KEY_GEN, nil)}, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_SECRET_KEY),
		pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, pkcs11.CKK_AES),
		pkcs11.NewAttribute(pkcs11.CKA_VALUE_LEN, 32),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, keyLabel),
		pkcs11.NewAttribute(pkcs11.CKA_ID, []byte(id)),
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true),
		pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true),
		pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
		pkcs11.NewAttribute(pkcs11.CKA_ENCRYPT, true),
		pkcs11.NewAttribute(pkcs11.CKA_DECRYPT, true),
	})
	if err != nil {
		return "", fmt.Errorf("generate a key: %w", err)
	}
	return id, nil
}

func (t *Token) current() (key, error) {
	keys, err := t.keys()
	if err != nil {
		return key{}, err
	}
	if len(keys) == 0 {
		return key{}, errors.New("the token has no keys")
	}
	return keys[len(keys)-1], nil
}

// keys lists the keys in the order of their creation. It includes keys of other processes.
func (t *Token) keys() ([]key, error) {
	err := t.library.FindObjectsInit(t.session, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_SECRET_KEY),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, keyLabel),
	})
	if err != nil {
		return nil, fmt.Errorf("find the keys: %w", err)
	}
	handles, _, err := t.library.FindObjects(t.session, 1000)
	if err := errors.Join(err, t.library.FindObjectsFinal(t.session)); err != nil {
		return nil, fmt.Errorf("find the keys: %w", err)
	}
	var keys []key
	for _, handle := range handles {
		attributes, err := t.library.GetAttributeValue(t.session, handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_ID, nil)})
		if err != nil {
			return nil, fmt.Errorf("read the ID of a key: %w", err)
		}
		keys = append(keys, key{id: string(attributes[0].Value), handle: handle})
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.id, b.id) })
	return keys, nil
}

func randomHex(size int) string {
	random := make([]byte, size)
	rand.Read(random)
	return hex.EncodeToString(random)
}
