package heartbeat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// A Lease names the Realms with undecrypted keys and the unreadable records.
func TestNames(t *testing.T) {
	var many []string
	for n := range heartbeat.MaxNames {
		many = append(many, fmt.Sprintf("%s-%02d", strings.Repeat("x", 250), n))
	}
	for name, test := range map[string]struct {
		names, want []string
	}{
		"none":           {nil, nil},
		"sorted":         {[]string{"shop", "acme", "shop"}, []string{"acme", "shop"}},
		"the maximum":    {many, many},
		"more than that": {append([]string{"acme"}, many...), []string{heartbeat.All}},
	} {
		t.Run(name, func(t *testing.T) {
			beat := sample
			beat.UndecryptedNext, beat.UndecryptedActive, beat.Unreadable = test.names, test.names, test.names
			got := testkit.Value(heartbeat.Parse(stored(t, &beat)))(t)
			testkit.Diff(t, "undecrypted next keys", test.want, got.UndecryptedNext)
			testkit.Diff(t, "undecrypted active keys", test.want, got.UndecryptedActive)
			testkit.Diff(t, "unreadable", test.want, got.Unreadable)
			for _, name := range test.names {
				if got.DecryptedNext(name) || got.DecryptedActive(name) || got.Serves(name, sample.Version) {
					t.Errorf("the server has decrypted the key of %s or serves it", name)
				}
			}
			other := len(test.names) <= heartbeat.MaxNames
			if got.DecryptedNext("other") != other || got.DecryptedActive("other") != other || got.Serves("other", sample.Version) != other {
				t.Errorf("another name: next key decrypted %t, active key %t, served %t", got.DecryptedNext("other"), got.DecryptedActive("other"), got.Serves("other", sample.Version))
			}
		})
	}
}

// A token server can't make the operator remember more than MaxNames names of normal length.
func TestNamesAreLimited(t *testing.T) {
	for name, value := range map[string]string{
		"many names":  strings.Repeat("a,", heartbeat.MaxNames),
		"a long name": strings.Repeat("a", 100_000),
	} {
		l := stored(t, &sample)
		for _, annotation := range []string{heartbeat.UndecryptedNextAnnotation, heartbeat.UndecryptedActiveAnnotation, heartbeat.UnreadableAnnotation} {
			l.Annotations[annotation] = value
		}
		got := testkit.Value(heartbeat.Parse(l))(t)
		all := []string{heartbeat.All}
		testkit.Diff(t, name, [][]string{all, all, all}, [][]string{got.UndecryptedNext, got.UndecryptedActive, got.Unreadable})
	}
}
