// Package corpus contains attacks that break the rules of TCP, TLS or HTTP, each in its own way.
package corpus

import "github.com/realmkeeper/realmkeeper/test/attack/attacker"

// Attacks contains the attacks by name.
var Attacks = map[string]attacker.Attack{}
