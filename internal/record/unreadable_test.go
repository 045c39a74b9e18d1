package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/record"
)

// canary is the secret data in invalid records. Errors must not contain it.
const canary = "canary-5c1f"

// change returns a function that changes the JSON of a record.
func change(alter func(envelope, body map[string]any)) func(*corev1.Secret) {
	return func(secret *corev1.Secret) {
		var envelope map[string]any
		if err := json.Unmarshal(secret.Data[record.DataKey], &envelope); err != nil {
			panic(err)
		}
		body, _ := envelope["body"].(map[string]any)
		alter(envelope, body)
		data, err := json.Marshal(envelope)
		if err != nil {
			panic(err)
		}
		secret.Data[record.DataKey] = data
	}
}

func setBody(member string, value any) func(*corev1.Secret) {
	return change(func(_, body map[string]any) { body[member] = value })
}

func setData(data string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Data = map[string][]byte{record.DataKey: []byte(data)} }
}

// invalidRecords are changes that make a record of any kind unreadable.
var invalidRecords = map[string]func(*corev1.Secret){
	"another name":        func(s *corev1.Secret) { s.Name = "other" },
	"no data":             func(s *corev1.Secret) { s.Data = nil },
	"another data key":    func(s *corev1.Secret) { s.Data = map[string][]byte{canary: s.Data[record.DataKey]} },
	"empty":               setData(""),
	"not JSON":            setData(canary),
	"truncated":           func(s *corev1.Secret) { d := s.Data[record.DataKey]; s.Data[record.DataKey] = d[:len(d)-20] },
	"trailing data":       func(s *corev1.Secret) { s.Data[record.DataKey] = append(s.Data[record.DataKey], canary...) },
	"list":                setData(`["` + canary + `"]`),
	"null":                setData("null"),
	"no version":          change(func(e, _ map[string]any) { delete(e, "schemaVersion") }),
	"version 0":           change(func(e, _ map[string]any) { e["schemaVersion"] = 0 }),
	"version 1":           change(func(e, _ map[string]any) { e["schemaVersion"] = 1 }),
	"version 3":           change(func(e, _ map[string]any) { e["schemaVersion"] = 3 }),
	"text as version":     change(func(e, _ map[string]any) { e["schemaVersion"] = canary }),
	"no body":             change(func(e, _ map[string]any) { delete(e, "body") }),
	"text as body":        change(func(e, _ map[string]any) { e["body"] = canary }),
	"text as lifetime":    setBody("tokenLifetimeSeconds", canary),
	"negative lifetime":   setBody("tokenLifetimeSeconds", -1),
	"lifetime too long":   setBody("tokenLifetimeSeconds", 86401),
	"negative rate limit": setBody("tokensPerSecond", -1),
	"text as scopes":      setBody("scopes", canary),
	"text as disabled":    setBody("disabled", canary),
}

func TestReadRealmRejectsInvalidRecord(t *testing.T) {
	key := func(alter func(key, jwk map[string]any)) func(*corev1.Secret) {
		return change(func(_, body map[string]any) {
			all, _ := body["keys"].([]any)
			first, _ := all[0].(map[string]any)
			jwk, _ := first["jwk"].(map[string]any)
			alter(first, jwk)
		})
	}
	tests := map[string]func(*corev1.Secret){
		"no name":                   setBody("name", ""),
		"no issuer":                 setBody("issuer", ""),
		"no lifetime":               setBody("tokenLifetimeSeconds", 0),
		"no keys":                   setBody("keys", nil),
		"no active key":             key(func(key, _ map[string]any) { key["state"] = "Retiring" }),
		"two active keys":           change(func(_, body map[string]any) { body["keys"].([]any)[1].(map[string]any)["state"] = "Active" }),
		"text as key":               setBody("keys", []string{canary}),
		"null key":                  setBody("keys", []any{nil}),
		"unknown key state":         key(func(key, _ map[string]any) { key["state"] = canary }),
		"public key":                key(func(_, jwk map[string]any) { delete(jwk, "d") }),
		"invalid private key":       key(func(_, jwk map[string]any) { jwk["d"] = canary }),
		"private key too short":     key(func(_, jwk map[string]any) { jwk["d"] = "AAAA"; jwk["x"] = canary }),
		"unknown kty":               key(func(_, jwk map[string]any) { jwk["kty"] = canary }),
		"another alg":               key(func(_, jwk map[string]any) { jwk["alg"] = canary }),
		"another kid":               key(func(_, jwk map[string]any) { jwk["kid"] = canary }),
		"symmetric key":             key(func(key, _ map[string]any) { key["jwk"] = map[string]any{"kty": "oct", "k": canary} }),
		"negative longest lifetime": key(func(key, _ map[string]any) { key["longestLifetimeSeconds"] = -1 }),
		"negative key cache":        setBody("keyCacheSeconds", -1),
		"key cache too long":        setBody("keyCacheSeconds", 1<<62),
		"client record":             func(s *corev1.Secret) { *s = *clientSecret(t, goodClient(t)) },
	}
	maps.Copy(tests, invalidRecords)
	private := map[string]string{}
	for _, k := range keys() {
		var encoded struct {
			JWK struct{ D string } `json:"jwk"`
		}
		data, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &encoded); err != nil || encoded.JWK.D == "" {
			t.Fatalf("key without d: %v", err)
		}
		private[k.ID] = encoded.JWK.D
	}
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			secret := realmSecret(t, goodRealm())
			alter(secret)
			got, err := record.ReadRealm(secret)
			checkRejection(t, err, secret)
			if diff := diffJSON(record.Realm{}, got); diff != "" {
				t.Errorf("rejected record returned (-want +got):\n%s", diff)
			}
			for _, d := range private {
				if strings.Contains(err.Error(), d) {
					t.Errorf("the error contains a private key: %v", err)
				}
			}
		})
	}
}

func TestReadClientRejectsInvalidRecord(t *testing.T) {
	hash := func(phc string) func(*corev1.Secret) {
		return setBody("secrets", []map[string]any{{"id": "1", "createdAt": now, "hash": phc}})
	}
	tests := map[string]func(*corev1.Secret){
		"no realm UID":        setBody("realmUID", ""),
		"no client ID":        setBody("clientID", ""),
		"another realm UID":   setBody("realmUID", "another"),
		"another client ID":   setBody("clientID", "another"),
		"no UID":              setBody("uid", ""),
		"no namespace":        setBody("namespace", ""),
		"no object name":      setBody("name", ""),
		"no identity":         setBody("identity", ""),
		"no audiences":        setBody("audiences", []string{}),
		"text as audiences":   setBody("audiences", canary),
		"invalid expiration":  setBody("expiresAt", canary),
		"text as secrets":     setBody("secrets", canary),
		"plaintext secret":    hash(canary),
		"no hash":             hash(""),
		"unknown hash scheme": hash("$" + canary + "$x$y"),
		"invalid hash":        hash("$hmac-sha256$" + canary + "$" + canary),
		"realm record":        func(s *corev1.Secret) { *s = *realmSecret(t, goodRealm()) },
	}
	maps.Copy(tests, invalidRecords)
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			secret := clientSecret(t, goodClient(t))
			alter(secret)
			got, err := record.ReadClient(secret)
			checkRejection(t, err, secret)
			if diff := diffJSON(record.Client{}, got); diff != "" {
				t.Errorf("rejected record returned (-want +got):\n%s", diff)
			}
		})
	}
}

// A hash below the accepted minimum does not make a record unreadable. Otherwise, token servers would
// keep serving an older record with secrets that were removed.
func TestReadClientOmitsSecretsWithTooWeakHash(t *testing.T) {
	const salt, tag = "$AAAAAAAAAAAAAAAAAAAAAA", "$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	good := goodClient(t)
	imported := record.ClientSecret{ID: "imported", CreatedAt: now, Hash: "$pbkdf2-sha256$i=10000,l=32" + salt + tag}
	for name, tooWeak := range map[string]string{
		"Argon2id": "$argon2id$v=19$m=19455,t=2,p=1" + salt + tag,
		"PBKDF2":   "$pbkdf2-sha256$i=9999,l=32" + salt + tag,
		"bcrypt":   "$2b$07$Io1.7xr5VRC/AFN7flWJ2.QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG",
	} {
		t.Run(name, func(t *testing.T) {
			stored := good
			weak := record.ClientSecret{ID: "weak", CreatedAt: now, Hash: tooWeak}
			stored.Secrets = []record.ClientSecret{weak, good.Secrets[0], weak, imported}
			want := good
			want.Secrets = []record.ClientSecret{good.Secrets[0], imported}
			got, err := record.ReadClient(clientSecret(t, stored))
			if diff := diffJSON(want, got); err != nil || diff != "" {
				t.Errorf("error %v, record (-want +got):\n%s", err, diff)
			}
		})
	}
}

func checkRejection(t *testing.T, err error, secret *corev1.Secret) {
	t.Helper()
	if !errors.Is(err, record.ErrUnreadable) {
		t.Fatalf("error %v, want %v", err, record.ErrUnreadable)
	}
	if strings.Contains(err.Error(), canary) {
		t.Errorf("the error contains record data: %v", err)
	}
	if !strings.Contains(err.Error(), secret.Namespace+"/"+secret.Name) {
		t.Errorf("the error does not name the Secret: %v", err)
	}
}

func TestReadIgnoresUnknownMembers(t *testing.T) {
	secret := realmSecret(t, goodRealm())
	change(func(envelope, body map[string]any) { envelope["later"] = true; body["later"] = canary })(secret)
	if _, err := record.ReadRealm(secret); err != nil {
		t.Error(err)
	}
}

func FuzzReadRealm(f *testing.F) {
	f.Add(realmSecret(f, goodRealm()).Data[record.DataKey])
	f.Add([]byte(`{"schemaVersion":2,"body":{"name":"a","issuer":"i","tokenLifetimeSeconds":1,"keys":[]}}`))
	f.Add([]byte(`{"schemaVersion":3}`))
	f.Add([]byte(`null`))
	template := realmSecret(f, goodRealm())
	f.Fuzz(func(t *testing.T, data []byte) {
		secret := template.DeepCopy()
		secret.Data[record.DataKey] = bytes.Clone(data)
		got, err := record.ReadRealm(secret)
		if err != nil {
			checkRejection(t, err, secret)
			return
		}
		again, err := record.ReadRealm(realmSecret(t, got))
		if diff := diffJSON(got, again); err != nil || diff != "" {
			t.Fatalf("round trip: %v (-want +got):\n%s", err, diff)
		}
	})
}

func FuzzReadClient(f *testing.F) {
	f.Add(clientSecret(f, goodClient(f)).Data[record.DataKey])
	f.Add([]byte(`{"schemaVersion":2,"body":{"uid":"u","realmUID":"r","clientID":"c","audiences":["a"],"secrets":null}}`))
	f.Add([]byte(`{"schemaVersion":2,"body":{"realmUID":"r","clientID":"c","expiresAt":"0001-01-01T00:00:00Z","scopes":["\ud800"]}}`))
	f.Add([]byte(`[]`))
	template := clientSecret(f, goodClient(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		secret := template.DeepCopy()
		secret.Data[record.DataKey] = bytes.Clone(data)
		got, err := record.ReadClient(secret)
		if err != nil {
			checkRejection(t, err, secret)
			return
		}
		again, err := record.ReadClient(clientSecret(t, got))
		if diff := diffJSON(got, again); err != nil || diff != "" {
			t.Fatalf("round trip: %v (-want +got):\n%s", err, diff)
		}
	})
}
