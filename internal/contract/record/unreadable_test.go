package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
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
	"another name":     func(s *corev1.Secret) { s.Name = "other" },
	"no data":          func(s *corev1.Secret) { s.Data = nil },
	"another data key": func(s *corev1.Secret) { s.Data = map[string][]byte{canary: s.Data[record.DataKey]} },
	"not JSON":         setData(canary),
	"truncated":        func(s *corev1.Secret) { d := s.Data[record.DataKey]; s.Data[record.DataKey] = d[:len(d)-20] },
	"null":             setData("null"),
	"version 2":        change(func(e, _ map[string]any) { e["schemaVersion"] = 2 }),
	"text as version":  change(func(e, _ map[string]any) { e["schemaVersion"] = canary }),
	"no body":          change(func(e, _ map[string]any) { delete(e, "body") }),
}

// invalidMembers are changes that make the record of a Realm and of an ApiClient unreadable.
var invalidMembers = map[string]func(*corev1.Secret){
	"negative lifetime":   setBody("tokenLifetimeSeconds", -1),
	"lifetime too long":   setBody("tokenLifetimeSeconds", 86401),
	"negative rate limit": setBody("tokensPerSecond", -1),
	"text as scopes":      setBody("scopes", canary),
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
		"no issuer":           setBody("issuer", ""),
		"no lifetime":         setBody("tokenLifetimeSeconds", 0),
		"no keys":             setBody("keys", nil),
		"two active keys":     change(func(_, body map[string]any) { body["keys"].([]any)[1].(map[string]any)["state"] = "Active" }),
		"null key":            setBody("keys", []any{nil}),
		"invalid private key": key(func(_, jwk map[string]any) { jwk["d"] = canary }),
		"another kid":         key(func(_, jwk map[string]any) { jwk["kid"] = canary }),
		"key cache too long":  setBody("keyCacheSeconds", 1<<62),
	}
	issuer := func(alter func(*record.Issuer)) func(*corev1.Secret) {
		issuer := goodRealm().Issuers[0]
		alter(&issuer)
		return setBody("issuers", []record.Issuer{issuer})
	}
	maps.Copy(tests, map[string]func(*corev1.Secret){
		"too many issuers": setBody("issuers", numbered(17, func(i int) record.Issuer {
			return record.Issuer{Name: strconv.Itoa(i), Issuer: strconv.Itoa(i), Audience: "a"}
		})),
		"two issuers with one name": setBody("issuers", []record.Issuer{{Name: "a", Issuer: "a", Audience: "a"}, {Name: "a", Issuer: "b", Audience: "a"}}),
		"two issuers of one token":  setBody("issuers", []record.Issuer{{Name: "a", Issuer: "a", Audience: "a"}, {Name: "b", Issuer: "a", Audience: "a"}}),
		"issuer without a name":     issuer(func(i *record.Issuer) { i.Name = "" }),
		"issuer named kubernetes":   issuer(func(i *record.Issuer) { i.Name = "kubernetes" }),
		"issuer with too many keys": issuer(func(i *record.Issuer) { i.Keys = slices.Repeat(i.Keys, 33) }),
		"issuer with empty claim":   issuer(func(i *record.Issuer) { i.RequiredClaims = map[string]string{"a": ""} }),
		"issuer with private key":   setBody("issuers", []any{map[string]any{"name": "a", "issuer": "a", "audience": "a", "keys": []any{map[string]string{"kty": "oct", "k": canary}}}}),
	})
	exchange := func(alter func(*record.Exchange)) func(*corev1.Secret) {
		e := goodExchange()
		alter(&e)
		return setBody("exchanges", []record.Exchange{e})
	}
	maps.Copy(tests, map[string]func(*corev1.Secret){
		"too many exchanges": setBody("exchanges", numbered(record.MaxExchanges+1, func(i int) record.Exchange {
			e := goodExchange()
			e.Name = strconv.Itoa(i)
			return e
		})),
		"two exchanges with one name":     setBody("exchanges", []record.Exchange{goodExchange(), goodExchange()}),
		"exchange without a name":         exchange(func(e *record.Exchange) { e.Name = "" }),
		"exchange without actors":         exchange(func(e *record.Exchange) { e.Actors = record.ClientSelector{ClientIDs: []string{"a"}} }),
		"exchange with two selectors":     exchange(func(e *record.Exchange) { e.Actors.All = true }),
		"exchange without subjects":       exchange(func(e *record.Exchange) { e.Subjects = nil }),
		"exchange with empty subjects":    exchange(func(e *record.Exchange) { e.Subjects = &record.ClientSelector{} }),
		"exchange of clients, and issuer": exchange(func(e *record.Exchange) { e.Issuer = "a" }),
		"exchange with an empty claim":    exchange(func(e *record.Exchange) { e.Claims = map[string]string{"a": ""} }),
		"exchange without actors allowed": exchange(func(e *record.Exchange) { e.MaxDepth = 0 }),
		"exchange that is too deep":       exchange(func(e *record.Exchange) { e.MaxDepth = record.MaxDepth + 1 }),
		"exchange, negative lifetime":     exchange(func(e *record.Exchange) { e.TokenLifetimeSeconds = -1 }),
		"exchange, lifetime too long":     exchange(func(e *record.Exchange) { e.TokenLifetimeSeconds = 86401 }),
	})
	maps.Copy(tests, invalidRecords)
	maps.Copy(tests, invalidMembers)
	private := map[string]string{}
	for _, k := range keys() {
		var encoded struct {
			JWK struct{ D string } `json:"jwk"`
		}
		data := testkit.Value(json.Marshal(k))(t)
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
		"another client ID": setBody("clientID", "another"),
		"no UID":            setBody("uid", ""),
		"no identity":       setBody("identity", ""),
		"no audiences":      setBody("audiences", []string{}),
		"plaintext secret":  hash(canary),
		"invalid hash":      hash("$hmac-sha256$" + canary + "$" + canary),
	}
	identity := func(i record.Identity) func(*corev1.Secret) { return setBody("identities", []record.Identity{i}) }
	claims := func(text string) func(*corev1.Secret) { return setBody("claims", json.RawMessage(text)) }
	maps.Copy(tests, map[string]func(*corev1.Secret){
		"too many identities":            setBody("identities", numbered(9, func(int) record.Identity { return record.Identity{Issuer: "a", IssuerName: "a", Subject: "a"} })),
		"identity without an issuer":     identity(record.Identity{IssuerName: "a", Subject: "a"}),
		"identity without a matcher":     identity(record.Identity{Issuer: "a", IssuerName: "a"}),
		"identity with an empty matcher": setBody("identities", []any{map[string]any{"issuer": "a", "issuerName": "a", "claims": map[string]any{}}}),
		"identity with two matchers":     identity(record.Identity{Issuer: "a", IssuerName: "a", Subject: "a", Claims: map[string]string{"a": "a"}}),
		"identity with an empty claim":   identity(record.Identity{Issuer: "a", IssuerName: "a", Claims: map[string]string{"a": ""}}),
		"identity with too many claims":  identity(record.Identity{Issuer: "a", IssuerName: "a", Claims: map[string]string{"1": "a", "2": "a", "3": "a", "4": "a", "5": "a", "6": "a", "7": "a", "8": "a", "9": "a"}}),
		"too many claims": setBody("claims", numbered(17, func(i int) record.Claim {
			return record.Claim{Name: "a" + strconv.Itoa(i), Value: json.RawMessage("1")}
		})),
		"claims that are too long":         claims(`[{"name":"a","value":"` + strings.Repeat("a", 2048) + `"}]`),
		"claim name that breaks JSON":      claims(`[{"name":"a\"","value":1}]`),
		"claim name that is not ASCII":     claims(`[{"name":"\u212A","value":1}]`),
		"claim names that differ in case":  claims(`[{"name":"a","value":1},{"name":"A","value":1}]`),
		"invalid claim with reserved name": claims(`[{"name":"Client_Id","value":null}]`),
		"fraction as claim":                claims(`[{"name":"a","value":1.5}]`),
		"object as claim":                  claims(`[{"name":"a","value":{"` + canary + `":1}}]`),
		"integer beyond 53 bits as claim":  claims(`[{"name":"a","value":9007199254740992}]`),
		"list of numbers as claim":         claims(`[{"name":"a","value":["a",1]}]`),
	})
	maps.Copy(tests, invalidRecords)
	maps.Copy(tests, invalidMembers)
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

func TestReadSubjectRejectsInvalidRecord(t *testing.T) {
	tests := map[string]func(*corev1.Secret){
		"no issuer":      setBody("issuer", ""),
		"no subject":     setBody("subject", ""),
		"another issuer": setBody("issuer", "another"),
		"no client ID":   setBody("clientID", ""),
	}
	maps.Copy(tests, invalidRecords)
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			secret := subjectSecret(t, goodSubject())
			alter(secret)
			got, err := record.ReadSubject(secret)
			checkRejection(t, err, secret)
			testkit.Diff(t, "record", (record.Subject{}), got)
		})
	}
}

func numbered[T any](n int, item func(int) T) []T {
	var all []T
	for i := range n {
		all = append(all, item(i))
	}
	return all
}

// A record can contain claims whose names an update has reserved since. They must not be in tokens, and
// must not make the record unreadable, because neither the operator nor a token server could use it.
func TestReadClientOmitsReservedClaims(t *testing.T) {
	want := goodClient(t)
	stored := want
	stored.Claims = slices.Clone(want.Claims)
	for _, name := range []string{"status", "Status_List", "TTL", "act", "may_act", "sub_id", "sub_uid", "rule", "Client_Id", "cnf"} {
		stored.Claims = append(stored.Claims, record.Claim{Name: name, Value: json.RawMessage(`"a"`)})
	}
	got := testkit.Value(record.ReadClient(clientSecret(t, stored)))(t)
	if diff := diffJSON(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
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
	testkit.Value(record.ReadRealm(secret))(t)
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
	f.Add([]byte(`{"schemaVersion":1,"body":{"uid":"u","realmUID":"r","clientID":"c","audiences":["a"],"secrets":null}}`))
	f.Add([]byte(`{"schemaVersion":1,"body":{"realmUID":"r","clientID":"c","expiresAt":"0001-01-01T00:00:00Z","scopes":["\ud800"]}}`))
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

func FuzzReadSubject(f *testing.F) {
	f.Add(subjectSecret(f, goodSubject()).Data[record.DataKey])
	f.Add([]byte(`{"schemaVersion":1,"body":{"realmUID":"r","issuer":"i","subject":"\ud800"}}`))
	f.Add([]byte(`[]`))
	template := subjectSecret(f, goodSubject())
	f.Fuzz(func(t *testing.T, data []byte) {
		secret := template.DeepCopy()
		secret.Data[record.DataKey] = bytes.Clone(data)
		got, err := record.ReadSubject(secret)
		if err != nil {
			checkRejection(t, err, secret)
			return
		}
		again, err := record.ReadSubject(subjectSecret(t, got))
		if err != nil || got != again {
			t.Fatalf("round trip: %v, %+v, want %+v", err, again, got)
		}
	})
}
