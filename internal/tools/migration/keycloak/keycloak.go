// Package keycloak reads the confidential clients with a service account from the export of a
// Keycloak realm. The export contains the client secrets in plaintext.
package keycloak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

// Input is the export of one or several realms.
type Input struct {
	// Name is the name of the file, for errors.
	Name    string
	Content []byte
	// Realm selects a realm. It may be empty if the file has only one.
	Realm string
	// Random is the source of the salts.
	Random io.Reader
}

// ErrRealm means that the file doesn't contain the realm, or contains several and none was selected.
var ErrRealm = errors.New("set --from-realm to a realm in the file")

// defaultLifetime is the lifetime of tokens in a new realm of Keycloak.
const defaultLifetime = 5 * time.Minute

// realm has the members of a realm that matter for the client credentials grant.
type realm struct {
	Name          string            `json:"realm"`
	Enabled       *bool             `json:"enabled"`
	TokenLifetime *int64            `json:"accessTokenLifespan"` // seconds
	Clients       []json.RawMessage `json:"clients"`
	Scopes        []clientScope     `json:"clientScopes"`
	Users         []user            `json:"users"`
}

type clientScope struct {
	Name       string            `json:"name"`
	Attributes map[string]string `json:"attributes"`
	Mappers    []mapper          `json:"protocolMappers"`
}

// user may be the user of a service account.
type user struct {
	Client      string         `json:"serviceAccountClientId"`
	Enabled     *bool          `json:"enabled"`
	RealmRoles  []string       `json:"realmRoles"`
	ClientRoles map[string]any `json:"clientRoles"`
}

type mapper struct {
	Name   string            `json:"name"`
	Type   string            `json:"protocolMapper"`
	Config map[string]string `json:"config"`
}

// Read returns the clients, with hashes of their secrets. Hashing takes about 30 ms for each secret.
//
// Errors: migration.ErrDamaged; ErrRealm; an error of reading Random; the error of ctx if it is done.
func Read(ctx context.Context, input Input) (*migration.Export, error) {
	r, err := selected(input)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", input.Name, err)
	}
	export := &migration.Export{TokenLifetime: defaultLifetime}
	if r.TokenLifetime != nil {
		export.TokenLifetime = seconds(*r.TokenLifetime)
	}
	if export.TokenLifetime < 10*time.Second || export.TokenLifetime > 24*time.Hour {
		return nil, fmt.Errorf("reading %s: the access token lifespan of the realm is %s, but it must be between 10s and 24h; change accessTokenLifespan in the file", input.Name, export.TokenLifetime)
	}
	seen := map[string]bool{}
	for i, raw := range r.Clients {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var c client
		if err := migration.Decode(raw, &c); err != nil {
			return nil, fmt.Errorf("reading client %d in %s: %w", i+1, input.Name, err)
		}
		if c.ID == "" {
			return nil, fmt.Errorf("reading client %d in %s: %w: it has no clientId", i+1, input.Name, migration.ErrDamaged)
		}
		if seen[c.ID] {
			return nil, fmt.Errorf("reading client %d in %s: %w: the client %q is in the realm twice", i+1, input.Name, migration.ErrDamaged, c.ID)
		}
		seen[c.ID] = true
		if err := c.add(export, r, input.Random); err != nil {
			return nil, err
		}
	}
	export.Sort()
	return export, nil
}

// selected returns the selected realm in a file, which contains realms or an array of realms.
func selected(input Input) (*realm, error) {
	values, err := migration.Values(input.Content)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 && bytes.HasPrefix(values[0], []byte("[")) {
		var list []json.RawMessage
		if err := migration.Decode(values[0], &list); err != nil {
			return nil, err
		}
		values = list
	}
	var names []string
	var found *realm
	for _, value := range values {
		var r realm
		if err := migration.Decode(value, &r); err != nil {
			return nil, err
		}
		if r.Name == "" || r.Clients == nil {
			return nil, fmt.Errorf("%w: it must be the export of a realm, with the members \"realm\" and \"clients\"", migration.ErrDamaged)
		}
		if slices.Contains(names, r.Name) {
			return nil, fmt.Errorf("%w: the realm %q is in the file twice", migration.ErrDamaged, r.Name)
		}
		names = append(names, r.Name)
		if input.Realm == r.Name || input.Realm == "" {
			found = &r
		}
	}
	if found == nil || input.Realm == "" && len(names) > 1 {
		slices.Sort(names)
		return nil, fmt.Errorf("%w: %s", ErrRealm, strings.Join(names, ", "))
	}
	return found, nil
}

// seconds avoids an overflow, because the number is from the file.
func seconds(n int64) time.Duration {
	return time.Duration(max(-1, min(n, int64(1000*time.Hour/time.Second)))) * time.Second
}
