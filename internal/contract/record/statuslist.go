package record

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaxIndexes is the maximum number of indexes in the status lists of a realm. It is a power of two.
const MaxIndexes = 1 << 20

// MaxEndedLists is the maximum number of ended lists that a realm still serves. Older ones are not served, so
// verifiers that have such a list use it until it expires.
const MaxEndedLists = 16

// StatusLists are the status lists of a realm (draft-ietf-oauth-status-list). One at a time is current, and
// the clients have the same indexes in all of them.
type StatusLists struct {
	// Number is the number of the current list; zero if there is none. It is later than every number
	// before, even if the records were restored: it is at least the Unix time at which the list began.
	Number int64 `json:"number,omitempty"`
	// TTLSeconds is how long verifiers can use a list, at least 1.
	TTLSeconds int64 `json:"ttlSeconds"`
	// ValidAfter is the TokensValidAfter of the realm when the list began, or an earlier one that the realm
	// has had since. While the realm has a later one, or one in the future, all indexes of the list are INVALID.
	ValidAfter time.Time `json:"validAfter,omitzero"`
	// RolledBackAt is when an operator had last found, before the list began, that the API server had been
	// rolled back; zero if never.
	RolledBackAt time.Time `json:"rolledBackAt,omitzero"`
	// Ending means that new tokens don't refer to the current list. It is served until EndsAt, which is zero
	// until the operator has found Ending in the record: the write of the record can take effect late.
	Ending bool      `json:"ending,omitempty"`
	EndsAt time.Time `json:"endsAt,omitzero"`
	// Ended are earlier lists of which every index is INVALID, the latest first.
	Ended []EndedList `json:"ended,omitempty"`
}

// EndedList is a list that is served until the last token that refers to it has expired. EndsAt is zero until the
// operator has found it in the record.
type EndedList struct {
	Number int64     `json:"number"`
	EndsAt time.Time `json:"endsAt,omitzero"`
}

// latest is the latest time at which the list can end.
func (e EndedList) latest() time.Time {
	if e.EndsAt.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return e.EndsAt
}

// IsIssued reports whether new tokens refer to the current list.
func (l *StatusLists) IsIssued() bool { return l != nil && l.Number != 0 && !l.Ending }

// End ends the current list, so that every index of it is INVALID. It returns nil for nil.
func (l *StatusLists) End() *StatusLists {
	if l == nil || l.Number == 0 {
		return l
	}
	ended := append([]EndedList{{Number: l.Number}}, l.Ended...)
	return &StatusLists{TTLSeconds: l.TTLSeconds, Ended: ended[:min(len(ended), MaxEndedLists)]}
}

// WithEnded adds the ended lists of other to those of l. Both can be nil.
func (l *StatusLists) WithEnded(other *StatusLists) *StatusLists {
	if l == nil || other == nil {
		return cmp.Or(l, other)
	}
	all := *l
	all.Ended = slices.Concat(l.Ended, other.Ended)
	slices.SortFunc(all.Ended, func(a, b EndedList) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), b.latest().Compare(a.latest()))
	})
	all.Ended = slices.CompactFunc(all.Ended, func(a, b EndedList) bool { return a.Number == b.Number })
	all.Ended = all.Ended[:min(len(all.Ended), MaxEndedLists)]
	return &all
}

func (l *StatusLists) valid() bool {
	return l == nil || l.Number >= 0 && l.TTLSeconds >= 1 && l.TTLSeconds <= maxLifetimeSeconds && len(l.Ended) <= MaxEndedLists &&
		!slices.ContainsFunc(l.Ended, func(e EndedList) bool { return e.Number <= 0 || l.Number != 0 && e.Number >= l.Number })
}

// StatusIndex is an index to which the tokens of a client refer.
type StatusIndex struct {
	// Index is less than MaxIndexes.
	Index int `json:"index"`
	// ValidAfter is the TokensValidAfter of the client when it got the index, or an earlier one that the client
	// has had since. While the client has a later one, or one in the future, the index is INVALID.
	ValidAfter time.Time `json:"validAfter,omitzero"`
}

func (i *StatusIndex) valid() bool { return i == nil || i.Index >= 0 && i.Index < MaxIndexes }

// Index is the record with which an ApiClient holds an index. Its name contains the index, so the API server
// ensures that no two clients hold one. As long as it exists, the index is INVALID, unless the record of a
// client that can be used has it.
type Index struct {
	StatusIndex

	// UID, Namespace, and Name identify the ApiClient.
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	RealmUID  types.UID `json:"realmUID"`
	// Serial counts the indexes that the client has had, from 1; see Client.IndexSerial.
	Serial int64 `json:"serial"`
	// RetiredAt is a time from which on no new token refers to the index; zero if new tokens can. The record
	// is deleted when the last token that does has expired.
	RetiredAt time.Time `json:"retiredAt,omitzero"`
}

// IndexRecordName returns the name of the record Secret for an index of a realm.
func IndexRecordName(realm types.UID, index int) string {
	return string(KindIndex) + "-" + string(realm) + "-" + strconv.Itoa(index)
}

// ParseIndexName returns the realm and the index of a record with the given name.
//
// Errors: ErrUnreadable.
func ParseIndexName(name string) (types.UID, int, error) {
	last := strings.LastIndexByte(name, '-')
	realm, ok := strings.CutPrefix(name[:max(last, 0)], string(KindIndex)+"-")
	index, err := strconv.Atoi(name[last+1:])
	if !ok || realm == "" || err != nil || index < 0 || index >= MaxIndexes || IndexRecordName(types.UID(realm), index) != name {
		return "", 0, fmt.Errorf("%w: %q is not the name of an index", ErrUnreadable, name)
	}
	return types.UID(realm), index, nil
}

// ReadIndex returns the record of an index in secret. The error wraps ErrUnreadable.
func ReadIndex(secret *corev1.Secret) (Index, error) {
	body, err := read[Index](secret, KindIndex)
	if err != nil {
		return Index{}, err
	}
	switch {
	case body.UID == "" || body.Namespace == "" || body.Name == "" || body.Serial < 1:
		return Index{}, unreadable(secret, "uid, namespace, name, or serial is missing")
	case secret.Name != IndexRecordName(body.RealmUID, body.Index):
		return Index{}, unreadable(secret, "its name does not match realmUID and index")
	}
	return body, nil
}
