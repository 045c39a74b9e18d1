package record

import (
	"encoding/json"
	"maps"
	"slices"
)

// Restrictions are the restrictions that were added after the first release, by name. A token server
// rejects all requests and tokens of a Realm or ApiClient whose record has one that it doesn't know,
// because it would otherwise grant what the user has forbidden.
//
// Only a field that a user has set adds a restriction. An upgrade alone must not: token servers of the
// previous version would reject clients that they accepted before.
type Restrictions map[string]json.RawMessage

// knownRestrictions are the names that this version enforces.
var knownRestrictions []string

// Unknown returns the restrictions that this version can't enforce; nil if there are none. The operator
// keeps them when it writes the record, so a rollback lifts no restriction.
func (r Restrictions) Unknown() Restrictions {
	unknown := maps.Clone(r)
	maps.DeleteFunc(unknown, func(name string, _ json.RawMessage) bool { return slices.Contains(knownRestrictions, name) })
	if len(unknown) == 0 {
		return nil
	}
	return unknown
}
