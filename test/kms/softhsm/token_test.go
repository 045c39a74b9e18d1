//go:build cgo

package softhsm

import (
	"errors"
	"testing"

	"github.com/miekg/pkcs11"
)

// The token reveals no key, not even to a program with its PIN.
func TestKeysStayInTheToken(t *testing.T) {
	token, err := Open(Module, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := token.Close(); err != nil {
			t.Error(err)
		}
	})
	current, err := token.current()
	if err != nil {
		t.Fatal(err)
	}
	value, err := token.library.GetAttributeValue(token.session, current.handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_VALUE, nil)})
	if !errors.Is(err, pkcs11.Error(pkcs11.CKR_ATTRIBUTE_SENSITIVE)) {
		t.Errorf("reading the key: %d attributes, %v", len(value), err)
	}
}
