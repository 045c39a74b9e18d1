// Package hydra reads the OAuth 2.0 clients of Ory Hydra: the responses of its admin API, and the
// hashes of the client secrets, which only its database has.
package hydra

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

// Input contains the exports of Hydra. The names of files are for errors.
type Input struct {
	// Clients are files with responses to GET /admin/clients, or with the output of "hydra list
	// clients --format json".
	Clients []File
	// Hashes is a file with the line "<client ID>|<hash>" for each secret. A client can have several.
	Hashes File
	// TokenLifetime is the token lifetime of clients that don't set one, which is Hydra's setting
	// ttl.access_token.
	TokenLifetime time.Duration
}

// File is a file and its name.
type File struct {
	Name    string
	Content []byte
}

// Read returns the clients. The result also lists the clients that can't move, such as those whose
// secret is not in Hashes, with the reasons.
//
// The error is migration.ErrDamaged if a file is incomplete or isn't an export. In this case, no
// clients are returned, because the missing ones would look as if they didn't exist.
func Read(input Input) (*migration.Export, error) {
	hashes, err := readHashes(input.Hashes)
	if err != nil {
		return nil, err
	}
	export := &migration.Export{TokenLifetime: input.TokenLifetime}
	seen, unknown := map[string]bool{}, map[string]int{}
	for _, file := range input.Clients {
		raw, err := listed(file.Content)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name, err)
		}
		for i, r := range raw {
			var c client
			if err := migration.Decode(r, &c); err != nil {
				return nil, fmt.Errorf("reading client %d in %s: %w", i+1, file.Name, err)
			}
			if c.ID == "" {
				return nil, fmt.Errorf("reading client %d in %s: %w: it has no client_id", i+1, file.Name, migration.ErrDamaged)
			}
			if seen[c.ID] {
				return nil, fmt.Errorf("reading client %d in %s: %w: the client %q is in the input twice; pass each page once", i+1, file.Name, migration.ErrDamaged, c.ID)
			}
			seen[c.ID] = true
			if err := members(r, unknown); err != nil {
				return nil, fmt.Errorf("reading client %d in %s: %w", i+1, file.Name, err)
			}
			c.add(export, hashes[c.ID])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(hashes)) {
		if !seen[id] {
			export.Skip(id, "its hash is in the file with the hashes, but the client is not in the export; pass all pages of GET /admin/clients")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		export.Warn("", "the member %q of %d clients is unknown and is dropped", name, unknown[name])
	}
	export.Sort()
	return export, nil
}

// listed returns the clients in a file: arrays, or objects with the member items.
func listed(file []byte) ([]json.RawMessage, error) {
	values, err := migration.Values(file)
	if err != nil {
		return nil, err
	}
	var all []json.RawMessage
	for _, value := range values {
		var page []json.RawMessage
		if bytes.HasPrefix(value, []byte("{")) {
			var list struct {
				Items []json.RawMessage `json:"items"`
			}
			if err := migration.Decode(value, &list); err != nil {
				return nil, err
			}
			page = list.Items
		} else if err := migration.Decode(value, &page); err != nil {
			return nil, err
		}
		if page == nil {
			return nil, fmt.Errorf("%w: it must be an array of clients, or an object with the member \"items\"", migration.ErrDamaged)
		}
		all = append(all, page...)
	}
	return all, nil
}

// readHashes returns the hashes by client ID, in the order of the file.
func readHashes(file File) (map[string][]string, error) {
	name := cmp.Or(file.Name, "the hashes")
	text, err := migration.Text(file.Content)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	hashes := map[string][]string{}
	number := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		separator := strings.LastIndexByte(line, '|') // a client ID can contain it, a hash can't
		if separator <= 0 {
			return nil, fmt.Errorf("reading %s: %w: line %d must be <client ID>|<hash>", name, migration.ErrDamaged, number)
		}
		id, hash := line[:separator], line[separator+1:]
		if slices.ContainsFunc(strings.Split(id, "|"), isHash) { // findings contain the client ID
			return nil, fmt.Errorf("reading %s: %w: line %d has a hash where the client ID must be; export only the columns id and client_secret, in this order", name, migration.ErrDamaged, number)
		}
		// Public clients have no secret. Two lines with the same hash are one secret.
		if hash != "" && !slices.Contains(hashes[id], hash) {
			hashes[id] = append(hashes[id], hash)
		}
	}
	return hashes, nil
}

// isHash reports whether s is a hash, even if it is one that token servers don't verify.
func isHash(s string) bool {
	_, err := clientsecret.ParseVerifier(s)
	return err == nil || errors.Is(err, clientsecret.ErrHashTooWeak) || errors.Is(err, clientsecret.ErrHashParameters)
}
