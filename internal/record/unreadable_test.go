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

// canary stands in for secret material where a record is broken.
const canary = "canary-5c1f"

// change alters the JSON of a record.
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

// either are the ways in which a record of either kind can't be read.
var either = map[string]func(*corev1.Secret){
	"another name":        func(s *corev1.Secret) { s.Name = "other" },
	"no data":             func(s *corev1.Secret) { s.Data = nil },
	"another data key":    func(s *corev1.Secret) { s.Data = map[string][]byte{canary: s.Data[record.DataKey]} },
	"empty":               setData(""),
	"not JSON":            setData(canary),
	"cut off":             func(s *corev1.Secret) { d := s.Data[record.DataKey]; s.Data[record.DataKey] = d[:len(d)-20] },
	"more than one value": func(s *corev1.Secret) { s.Data[record.DataKey] = append(s.Data[record.DataKey], canary...) },
	"a list":              setData(`["` + canary + `"]`),
	"null":                setData("null"),
	"no version":          change(func(e, _ map[string]any) { delete(e, "schemaVersion") }),
	"version 0":           change(func(e, _ map[string]any) { e["schemaVersion"] = 0 }),
	"version 2":           change(func(e, _ map[string]any) { e["schemaVersion"] = 2 }),
	"a version of text":   change(func(e, _ map[string]any) { e["schemaVersion"] = canary }),
	"no body":             change(func(e, _ map[string]any) { delete(e, "body") }),
	"a body of text":      change(func(e, _ map[string]any) { e["body"] = canary }),
	"a lifetime of text":  setBody("tokenLifetimeSeconds", canary),
	"a negative lifetime": setBody("tokenLifetimeSeconds", -1),
	"more than a day":     setBody("tokenLifetimeSeconds", 86401),
	"a negative limit":    setBody("tokensPerSecond", -1),
	"scopes of text":      setBody("scopes", canary),
	"a switch of text":    setBody("disabled", canary),
}

func TestReadRealmRefuses(t *testing.T) {
	key := func(alter func(key, jwk map[string]any)) func(*corev1.Secret) {
		return change(func(_, body map[string]any) {
			all, _ := body["keys"].([]any)
			first, _ := all[0].(map[string]any)
			jwk, _ := first["jwk"].(map[string]any)
			alter(first, jwk)
		})
	}
	tests := map[string]func(*corev1.Secret){
		"no name":                      setBody("name", ""),
		"no issuer":                    setBody("issuer", ""),
		"no lifetime":                  setBody("tokenLifetimeSeconds", 0),
		"no keys":                      setBody("keys", nil),
		"no active key":                key(func(key, _ map[string]any) { key["state"] = "Retiring" }),
		"two active keys":              change(func(_, body map[string]any) { body["keys"].([]any)[1].(map[string]any)["state"] = "Active" }),
		"a key of text":                setBody("keys", []string{canary}),
		"a null key":                   setBody("keys", []any{nil}),
		"an unknown state":             key(func(key, _ map[string]any) { key["state"] = canary }),
		"a public key":                 key(func(_, jwk map[string]any) { delete(jwk, "d") }),
		"a broken private key":         key(func(_, jwk map[string]any) { jwk["d"] = canary }),
		"a d too short":                key(func(_, jwk map[string]any) { jwk["d"] = "AAAA"; jwk["x"] = canary }),
		"an unknown kty":               key(func(_, jwk map[string]any) { jwk["kty"] = canary }),
		"another alg":                  key(func(_, jwk map[string]any) { jwk["alg"] = canary }),
		"another kid":                  key(func(_, jwk map[string]any) { jwk["kid"] = canary }),
		"a symmetric key":              key(func(key, _ map[string]any) { key["jwk"] = map[string]any{"kty": "oct", "k": canary} }),
		"a negative lifetime of a key": key(func(key, _ map[string]any) { key["longestLifetimeSeconds"] = -1 }),
		"a cache below nothing":        setBody("keyCacheSeconds", -1),
		"a cache of ages":              setBody("keyCacheSeconds", 1<<62),
		"a client's":                   func(s *corev1.Secret) { *s = *clientSecret(t, goodClient(t)) },
	}
	maps.Copy(tests, either)
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
			t.Fatalf("no d in a key: %v", err)
		}
		private[k.ID] = encoded.JWK.D
	}
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			secret := realmSecret(t, goodRealm())
			alter(secret)
			got, err := record.ReadRealm(secret)
			checkRefusal(t, err, secret)
			if diff := diffJSON(record.Realm{}, got); diff != "" {
				t.Errorf("refused, and yet it returned (-want +got):\n%s", diff)
			}
			for _, d := range private {
				if strings.Contains(err.Error(), d) {
					t.Errorf("the error tells a private key: %v", err)
				}
			}
		})
	}
}

func TestReadClientRefuses(t *testing.T) {
	hash := func(phc string) func(*corev1.Secret) {
		return setBody("secrets", []map[string]any{{"id": "1", "createdAt": now, "hash": phc}})
	}
	tests := map[string]func(*corev1.Secret){
		"no realm UID":       setBody("realmUID", ""),
		"no client id":       setBody("clientID", ""),
		"a broken time":      setBody("createdAt", canary),
		"a broken expiry":    setBody("expiresAt", canary),
		"secrets of text":    setBody("secrets", canary),
		"a plaintext secret": hash(canary),
		"no hash":            hash(""),
		"an unknown scheme":  hash("$" + canary + "$x$y"),
		"a broken hash":      hash("$hmac-sha256$" + canary + "$" + canary),
		"a realm's":          func(s *corev1.Secret) { *s = *realmSecret(t, goodRealm()) },
	}
	maps.Copy(tests, either)
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			secret := clientSecret(t, goodClient(t))
			alter(secret)
			got, err := record.ReadClient(secret)
			checkRefusal(t, err, secret)
			if diff := diffJSON(record.Client{}, got); diff != "" {
				t.Errorf("refused, and yet it returned (-want +got):\n%s", diff)
			}
		})
	}
}

func checkRefusal(t *testing.T, err error, secret *corev1.Secret) {
	t.Helper()
	if !errors.Is(err, record.ErrUnreadable) {
		t.Fatalf("error %v, want %v", err, record.ErrUnreadable)
	}
	if strings.Contains(err.Error(), canary) {
		t.Errorf("the error repeats what stands there: %v", err)
	}
	if !strings.Contains(err.Error(), secret.Namespace+"/"+secret.Name) {
		t.Errorf("the error doesn't name the Secret: %v", err)
	}
}

// What this version doesn't know is passed over.
func TestReadPassesOverUnknownMembers(t *testing.T) {
	secret := realmSecret(t, goodRealm())
	change(func(envelope, body map[string]any) { envelope["later"] = true; body["later"] = canary })(secret)
	if _, err := record.ReadRealm(secret); err != nil {
		t.Error(err)
	}
}

func FuzzReadRealm(f *testing.F) {
	f.Add(realmSecret(f, goodRealm()).Data[record.DataKey])
	f.Add([]byte(`{"schemaVersion":1,"body":{"name":"a","issuer":"i","tokenLifetimeSeconds":1,"keys":[]}}`))
	f.Add([]byte(`{"schemaVersion":2}`))
	f.Add([]byte(`null`))
	template := realmSecret(f, goodRealm())
	f.Fuzz(func(t *testing.T, data []byte) {
		secret := template.DeepCopy()
		secret.Data[record.DataKey] = bytes.Clone(data)
		got, err := record.ReadRealm(secret)
		if err != nil {
			checkRefusal(t, err, secret)
			return
		}
		again, err := record.ReadRealm(realmSecret(t, got))
		if diff := diffJSON(got, again); err != nil || diff != "" {
			t.Fatalf("read again: %v (-want +got):\n%s", err, diff)
		}
	})
}

func FuzzReadClient(f *testing.F) {
	f.Add(clientSecret(f, goodClient(f)).Data[record.DataKey])
	f.Add([]byte(`{"schemaVersion":1,"body":{"realmUID":"r","clientID":"c","createdAt":"2026-03-01T12:00:00+02:00","secrets":null}}`))
	f.Add([]byte(`{"schemaVersion":1,"body":{"realmUID":"r","clientID":"c","expiresAt":"0001-01-01T00:00:00Z","scopes":["\ud800"]}}`))
	f.Add([]byte(`[]`))
	template := clientSecret(f, goodClient(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		secret := template.DeepCopy()
		secret.Data[record.DataKey] = bytes.Clone(data)
		got, err := record.ReadClient(secret)
		if err != nil {
			checkRefusal(t, err, secret)
			return
		}
		again, err := record.ReadClient(clientSecret(t, got))
		if diff := diffJSON(got, again); err != nil || diff != "" {
			t.Fatalf("read again: %v (-want +got):\n%s", err, diff)
		}
	})
}
