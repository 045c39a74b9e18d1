package registry_test

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// If two clients have one index, after a user deleted its record, the entry is INVALID if the tokens of one of them are.
// Each registry lists its clients in another order.
func TestSharedIndexIsInvalidIfOneClientIs(t *testing.T) {
	for name, tc := range map[string]struct {
		disabled [2]bool
		want     bool
	}{
		"both work":         {},
		"the first is off":  {disabled: [2]bool{true, false}, want: true},
		"the second is off": {disabled: [2]bool{false, true}, want: true},
		"both are off":      {disabled: [2]bool{true, true}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			invalid := map[bool]int{}
			for range 100 {
				reg := registry.New()
				reg.SetRealm(realm(t, "r1", "acme", func(s *registry.RealmSettings) {
					s.StatusLists = &record.StatusLists{Number: 7, TTLSeconds: 10}
				}))
				reg.SetIndex(registry.Index{RealmUID: "r1", Index: 3})
				for i, off := range tc.disabled {
					reg.SetClient(client([]string{"a", "b"}[i], "r1", []string{"billing", "shop"}[i], func(c *registry.Client) {
						c.Disabled, c.StatusIndex = off, &record.StatusIndex{Index: 3}
					}))
				}
				acme := reg.Realm("acme")
				list, _ := acme.StatusList("7")
				entries, _ := acme.StatusEntries(list, now.Add(time.Second))
				invalid[entries.IsInvalid(3)]++
			}
			testkit.Diff(t, "builds by whether the entry is INVALID", map[bool]int{tc.want: 100}, invalid)
		})
	}
}
