package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"strings"
)

// These follow the rules of the API; see api/v1beta1/grant_types.go.
var (
	clientIDPattern = regexp.MustCompile(`^[!-$&-),-9;-~]+$`) //nolint:gocritic // The ranges are those of the API.
	scopePattern    = regexp.MustCompile(`^[!#-\[\]-~]+$`)    //nolint:gocritic // The ranges are those of the API.
	audiencePattern = regexp.MustCompile(`^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$`)
	absolutePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:.`)
	labelPattern    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	namePattern     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

func validScope(s string) bool { return len(s) <= maxScope && s != "*" && scopePattern.MatchString(s) }

func validAudience(s string) bool {
	if len(s) > maxAudience || s == "*" || !audiencePattern.MatchString(s) {
		return false
	}
	_, err := url.Parse(s)
	return !strings.Contains(s, ":") || err == nil && absolutePattern.MatchString(s)
}

// maxName is shorter than the API allows, so that a name is also a good file name.
const maxName = 63

// objectNames returns the names of the ApiClients by client ID. If Kubernetes allows the client ID as
// a name, it is the name. Otherwise, characters that aren't allowed are replaced, and a part of the
// client ID's hash is appended. Names therefore stay the same when other clients are added, unless an
// attacker chose a client ID so that the names collide.
func objectNames(clients []Client) map[string]string {
	names, taken := make(map[string]string, len(clients)), make(map[string]bool, len(clients))
	for i := range clients {
		if id := clients[i].ID; len(id) <= maxName && namePattern.MatchString(id) {
			names[id], taken[id] = id, true
		}
	}
	for i := range clients {
		id := clients[i].ID
		if names[id] != "" {
			continue
		}
		hash := sha256.Sum256([]byte(id))
		for digits := 8; names[id] == ""; digits += 8 {
			if name := derivedName(id, hex.EncodeToString(hash[:])[:digits]); !taken[name] {
				names[id], taken[name] = name, true
			}
		}
	}
	return names
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func derivedName(id, suffix string) string {
	stem := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(id), "-"), "-")
	stem = strings.Trim(stem[:min(len(stem), max(0, maxName-1-len(suffix)))], "-")
	if stem == "" {
		return "client-" + suffix
	}
	return stem + "-" + suffix
}
