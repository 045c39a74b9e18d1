package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func sealedForTest() signingkey.Sealed {
	return signingkey.Sealed{RealmUID: "uid", KeyID: "1", EncryptedDataKey: []byte("wrapped"), Ciphertext: []byte("ciphertext")}
}

func TestOpenAcceptsOnlyThePrivatePartOfTheKey(t *testing.T) {
	key := testkit.Value(signingkey.Generate(signingkey.RS256, time.Now(), rand.Reader))(t)
	other := testkit.Value(signingkey.Generate(signingkey.RS256, time.Now(), rand.Reader))(t)
	private := testkit.Value(key.PrivateJWK())(t)
	foreign := testkit.Value(other.PrivateJWK())(t)
	public := testkit.Value(json.Marshal(key.Public()))(t)
	sealed := key.Seal(sealedForTest())
	if opened, err := sealed.Open(private); err != nil || opened.Sealed() != nil {
		t.Errorf("got %v, %v", opened.Sealed(), err)
	}
	for name, data := range map[string][]byte{"another key": foreign, "public key": public, "not a JWK": []byte("{")} {
		if _, err := sealed.Open(data); !errors.Is(err, signingkey.ErrKey) {
			t.Errorf("%s: got error %v, want ErrKey", name, err)
		}
	}
}

func TestUnmarshalRejectsIncompleteSealedKey(t *testing.T) {
	key := testkit.Value(signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader))(t)
	plain := testkit.Value(json.Marshal(key))(t)
	sealed := testkit.Value(json.Marshal(key.Seal(sealedForTest())))(t)
	testkit.Do(t, json.Unmarshal(sealed, &signingkey.Key{}))
	part := string(sealed[bytes.Index(sealed, []byte(`"sealed"`)):bytes.Index(sealed, []byte(`,"state"`))])
	for name, data := range map[string]string{
		"private members beside the sealed part": strings.Replace(string(plain), `"state"`, part+`,"state"`, 1),
		"neither private nor sealed":             strings.Replace(string(sealed), part+",", "", 1),
		"no realm":                               strings.Replace(string(sealed), `"realmUID":"uid"`, `"realmUID":""`, 1),
		"no key ID":                              strings.Replace(string(sealed), `"keyID":"1"`, `"keyID":""`, 1),
		"other algorithm":                        strings.Replace(string(sealed), "ES256", "ES384", 1),
		"other ID":                               strings.Replace(string(sealed), key.ID, strings.ToUpper(key.ID), 1),
	} {
		if data == string(sealed) {
			t.Fatalf("%s: the test changes nothing", name)
		}
		if err := json.Unmarshal([]byte(data), &signingkey.Key{}); !errors.Is(err, signingkey.ErrKey) {
			t.Errorf("%s: got error %v, want ErrKey", name, err)
		}
	}
}
