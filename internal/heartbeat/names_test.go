package heartbeat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
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
			got, err := heartbeat.Parse(stored(t, &beat))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.UndecryptedNext); diff != "" {
				t.Errorf("undecrypted next keys (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got.UndecryptedActive); diff != "" {
				t.Errorf("undecrypted active keys (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got.Unreadable); diff != "" {
				t.Errorf("unreadable (-want +got):\n%s", diff)
			}
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
		got, err := heartbeat.Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		all := []string{heartbeat.All}
		if diff := cmp.Diff([][]string{all, all, all}, [][]string{got.UndecryptedNext, got.UndecryptedActive, got.Unreadable}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
