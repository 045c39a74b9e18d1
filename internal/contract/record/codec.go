package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// envelope is the JSON of a record: its schema version and its body.
type envelope[T Realm | Client | Subject | Index] struct {
	SchemaVersion int `json:"schemaVersion"`
	Body          T   `json:"body"`
}

// Encode returns the JSON of a record, which Read functions read.
func Encode[T Realm | Client | Subject | Index](body T) ([]byte, error) {
	return json.Marshal(envelope[T]{SchemaVersion: SchemaVersion, Body: body})
}

// ReadRealm returns the Realm's record in secret. The error wraps ErrUnreadable and never contains
// record data.
func ReadRealm(secret *corev1.Secret) (Realm, error) {
	body, err := read[Realm](secret, KindRealm)
	if err != nil {
		return Realm{}, err
	}
	active := 0
	for i := range body.Keys {
		if body.Keys[i].State == signingkey.Active {
			active++
		}
	}
	switch {
	case body.Name == "" || body.Issuer == "":
		return Realm{}, unreadable(secret, "name or issuer is missing")
	case body.TokenLifetimeSeconds < 1 || body.TokenLifetimeSeconds > maxLifetimeSeconds:
		return Realm{}, unreadable(secret, "tokenLifetimeSeconds must be between one second and one day")
	case body.KeyCacheSeconds < 0 || body.KeyCacheSeconds > maxLifetimeSeconds:
		return Realm{}, unreadable(secret, "keyCacheSeconds must be between zero and one day")
	case body.TokensPerSecond < 0:
		return Realm{}, unreadable(secret, "tokensPerSecond must not be negative")
	case len(body.Keys) == 0 || active > 1:
		return Realm{}, unreadable(secret, "there must be a signing key, and at most one that is active")
	case !body.valid():
		return Realm{}, unreadable(secret, "issuers, exchanges, or statusLists is invalid")
	}
	return body, nil
}

func (r *Realm) valid() bool {
	return validIssuers(r.Issuers) && validExchanges(r.Exchanges) && r.StatusLists.valid()
}

// ReadClient returns the ApiClient's record in secret, without the secrets whose hash is below the
// accepted minimum, and without fixed claims that have a reserved name. Nothing accepts those secrets,
// and no token contains those claims. The rest of the record still applies: otherwise, token servers
// would keep an older record, and with it secrets that were removed. An older version can have written
// both. The error wraps ErrUnreadable and never contains record data.
func ReadClient(secret *corev1.Secret) (Client, error) {
	body, err := read[Client](secret, KindClient)
	if err != nil {
		return Client{}, err
	}
	switch {
	case body.UID == "" || body.Namespace == "" || body.Name == "" || body.Identity == "":
		return Client{}, unreadable(secret, "uid, namespace, name, or identity is missing")
	case secret.Name != ClientRecordName(body.RealmUID, body.ClientID):
		return Client{}, unreadable(secret, "its name does not match realmUID and clientID")
	case len(body.Audiences) == 0:
		return Client{}, unreadable(secret, "audiences must not be empty")
	case body.TokenLifetimeSeconds < 0 || body.TokenLifetimeSeconds > maxLifetimeSeconds:
		return Client{}, unreadable(secret, "tokenLifetimeSeconds must be between zero and one day")
	case body.TokensPerSecond < 0:
		return Client{}, unreadable(secret, "tokensPerSecond must not be negative")
	case !validIdentities(body.Identities) || !validClaims(body.Claims):
		return Client{}, unreadable(secret, "identities or claims is invalid")
	case !body.StatusIndex.valid():
		return Client{}, unreadable(secret, "statusIndex is invalid")
	}
	body.Claims = withoutReservedClaims(body.Claims)
	if err := body.removeWeakSecrets(); err != nil {
		return Client{}, fmt.Errorf("%w: Secret %s/%s: %w", ErrUnreadable, secret.Namespace, secret.Name, err)
	}
	return body, nil
}

// removeWeakSecrets removes the secrets whose hash is below the accepted minimum.
func (c *Client) removeWeakSecrets() (err error) {
	if c.Secrets, err = acceptedSecrets(c.Secrets); err != nil || c.Restored == nil {
		return err
	}
	if len(c.Restored.Secrets) > MaxRestoredSecrets {
		return fmt.Errorf("it has more than %d restored secrets", MaxRestoredSecrets)
	}
	c.Restored.Secrets, err = acceptedSecrets(c.Restored.Secrets)
	return err
}

// acceptedSecrets returns the secrets without those whose hash is below the accepted minimum.
func acceptedSecrets(secrets []ClientSecret) ([]ClientSecret, error) {
	for _, s := range secrets {
		if _, err := clientsecret.ParseVerifier(s.Hash); err != nil && !errors.Is(err, clientsecret.ErrHashTooWeak) {
			return nil, err
		}
	}
	return slices.DeleteFunc(secrets, func(s ClientSecret) bool {
		_, err := clientsecret.ParseVerifier(s.Hash)
		return err != nil
	}), nil
}

// ReadSubject returns the record of a subject in secret. The error wraps ErrUnreadable.
func ReadSubject(secret *corev1.Secret) (Subject, error) {
	body, err := read[Subject](secret, KindSubject)
	if err != nil {
		return Subject{}, err
	}
	switch {
	case body.UID == "" || body.Namespace == "" || body.Name == "" || body.ClientID == "":
		return Subject{}, unreadable(secret, "uid, namespace, name, or clientID is missing")
	case body.IssuerName == "" || body.Issuer == "" || body.Subject == "":
		return Subject{}, unreadable(secret, "issuerName, issuer, or subject is missing")
	case secret.Name != SubjectRecordName(body.RealmUID, body.IssuerName, body.Issuer, body.Subject):
		return Subject{}, unreadable(secret, "its name does not match realmUID, issuerName, issuer, and subject")
	}
	return body, nil
}

// Equal reports whether two records have the same JSON.
func Equal[T Realm | Client | Subject | Index](a, b T) bool {
	first, firstErr := json.Marshal(a)
	second, secondErr := json.Marshal(b)
	return firstErr == nil && secondErr == nil && bytes.Equal(first, second)
}

const maxLifetimeSeconds = int64(signingkey.MaxLifetime / time.Second)

func read[T Realm | Client | Subject | Index](secret *corev1.Secret, kind Kind) (T, error) {
	var got envelope[T]
	if KindOf(secret) != kind {
		return got.Body, unreadable(secret, "its name is not that of a "+string(kind)+" record")
	}
	data, ok := secret.Data[DataKey]
	if !ok {
		return got.Body, unreadable(secret, "data key "+DataKey+" is missing")
	}
	// Check the version first, because the body of a different version may not decode.
	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return got.Body, unreadable(secret, "data key "+DataKey+" is not a JSON object")
	}
	if version.SchemaVersion != SchemaVersion {
		return got.Body, unreadable(secret, fmt.Sprintf("unsupported schemaVersion %d, must be %d", version.SchemaVersion, SchemaVersion))
	}
	if err := json.Unmarshal(data, &got); err != nil {
		// The JSON package's error may contain record data.
		return got.Body, unreadable(secret, "data key "+DataKey+" has an invalid member")
	}
	return got.Body, nil
}

func unreadable(secret *corev1.Secret, problem string) error {
	return fmt.Errorf("%w: Secret %s/%s: %s", ErrUnreadable, secret.Namespace, secret.Name, problem)
}
