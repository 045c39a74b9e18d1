package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const schemaVersion = 1

// ErrInvalid is returned for a ConfigMap that isn't a valid report.
var ErrInvalid = errors.New("invalid usage report")

// Report lists when credentials were last used, according to one token server.
type Report struct {
	// Server is the name of the server's Pod.
	Server string
	// Lost is a time before which uses may be missing, because they were lost before they were
	// reported. It is zero if no uses were lost.
	Lost time.Time
	// Uses are the times of the last use, truncated to the resolution, by UID of the ApiClient.
	Uses map[types.UID]map[Credential]time.Time
}

// encoded is the JSON form of a Report. Times are in seconds since the Unix epoch.
type encoded struct {
	SchemaVersion int                                `json:"schemaVersion"`
	Server        string                             `json:"server"`
	Lost          int64                              `json:"lost,omitempty"`
	Uses          map[types.UID]map[Credential]int64 `json:"uses,omitempty"`
}

// Name returns the name of a server's ConfigMap with the given number, 0 to MaxReports-1. The
// admission policy for token servers allows only these names.
func Name(server string, number int) string {
	return "token-server-" + server + "-usage-" + strconv.Itoa(number)
}

// ServerOf returns the server whose ConfigMap has the given name. ok is false if Name never returns
// the given name.
func ServerOf(name string) (server string, ok bool) {
	rest, ok := strings.CutPrefix(name, "token-server-")
	i := strings.LastIndex(rest, "-usage-")
	if !ok || i < 1 {
		return "", false
	}
	number, err := strconv.Atoi(rest[i+len("-usage-"):])
	if err != nil || number < 0 || number >= MaxReports || Name(rest[:i], number) != name {
		return "", false
	}
	return rest[:i], true
}

// Add records a use. If the report has a later use of the same credential, Add changes nothing.
func (r *Report) Add(client types.UID, c Credential, at time.Time) {
	uses := r.Uses[client]
	if uses == nil {
		if r.Uses == nil {
			r.Uses = map[types.UID]map[Credential]time.Time{}
		}
		uses = map[Credential]time.Time{}
		r.Uses[client] = uses
	}
	if at.After(uses[c]) {
		uses[c] = at
	}
}

// Encode returns the data of the report's ConfigMap.
func (r *Report) Encode() (string, error) {
	e := encoded{SchemaVersion: schemaVersion, Server: r.Server, Uses: make(map[types.UID]map[Credential]int64, len(r.Uses))}
	if !r.Lost.IsZero() {
		// Round up. Otherwise, losses in the last fraction of a second would be hidden.
		e.Lost = r.Lost.Add(time.Second - 1).Unix()
	}
	for client, uses := range r.Uses {
		times := make(map[Credential]int64, len(uses))
		for c, at := range uses {
			times[c] = at.Unix()
		}
		e.Uses[client] = times
	}
	data, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encoding a usage report: %w", err)
	}
	return string(data), nil
}

// ConfigMap returns the ConfigMap with the given number for the encoded report of a server.
func ConfigMap(namespace, server string, number int, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: Name(server, number), Labels: map[string]string{Label: LabelValue},
		},
		Data: map[string]string{DataKey: data},
	}
}

// Parse returns the report in a ConfigMap. The error wraps ErrInvalid. It repeats at most the
// beginning of an invalid server name or credential from the report.
func Parse(cm *corev1.ConfigMap) (*Report, error) {
	fail := func(format string, args ...any) (*Report, error) {
		return nil, fmt.Errorf("%w: ConfigMap %s/%s: "+format, append([]any{ErrInvalid, cm.Namespace, cm.Name}, args...)...)
	}
	server, ok := ServerOf(cm.Name)
	if !ok {
		return fail("the name does not belong to a report of a token server")
	}
	data := cm.Data[DataKey]
	if len(data) > MaxSize {
		return fail("%s has %d bytes, more than %d", DataKey, len(data), MaxSize)
	}
	var e encoded
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fail("%s is not a report: %w", DataKey, err)
	}
	switch {
	case e.SchemaVersion != schemaVersion:
		return fail("schema version %d is not supported", e.SchemaVersion)
	case e.Server != server:
		return fail("the report is of token server %.64q", e.Server)
	case e.Lost < 0:
		return fail("lost is negative")
	case len(e.Uses) > maxClients:
		return fail("the report has %d clients, more than %d", len(e.Uses), maxClients)
	}
	r := &Report{Server: server}
	if e.Lost > 0 {
		r.Lost = time.Unix(e.Lost, 0).UTC()
	}
	for client, uses := range e.Uses {
		if len(uses) > maxCredentials {
			return fail("a client has %d credentials, more than %d", len(uses), maxCredentials)
		}
		for c, at := range uses {
			if at <= 0 {
				return fail("a time is not positive")
			}
			r.Add(client, c, time.Unix(at, 0).UTC())
		}
	}
	return r, nil
}
