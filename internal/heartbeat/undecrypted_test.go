package heartbeat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

func TestUndecryptedRealms(t *testing.T) {
	var many []string
	for n := range heartbeat.MaxUndecrypted {
		many = append(many, fmt.Sprintf("%s-%02d", strings.Repeat("x", 60), n))
	}
	for name, test := range map[string]struct {
		realms, want []string
	}{
		"none":           {nil, nil},
		"sorted":         {[]string{"shop", "acme", "shop"}, []string{"acme", "shop"}},
		"the maximum":    {many, many},
		"more than that": {append([]string{"acme"}, many...), []string{heartbeat.AllRealms}},
	} {
		t.Run(name, func(t *testing.T) {
			beat := sample
			beat.Undecrypted = test.realms
			data, err := json.Marshal(beat.Lease("system"))
			if err != nil {
				t.Fatal(err)
			}
			lease := &coordinationv1.Lease{}
			if err := json.Unmarshal(data, lease); err != nil {
				t.Fatal(err)
			}
			got, err := heartbeat.Parse(lease)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Undecrypted); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, realm := range test.realms {
				if got.Decrypted(realm) {
					t.Errorf("the server has decrypted the key of %s", realm)
				}
			}
			if other := got.Decrypted("other"); other != (len(test.realms) <= heartbeat.MaxUndecrypted) {
				t.Errorf("another realm: %t", other)
			}
		})
	}
}

// A token server can't make the operator remember more than MaxUndecrypted names of normal length.
func TestUndecryptedRealmsAreLimited(t *testing.T) {
	for name, value := range map[string]string{
		"many names":  strings.Repeat("a,", heartbeat.MaxUndecrypted),
		"a long name": strings.Repeat("a", 100_000),
	} {
		l := lease(t)
		l.Annotations[heartbeat.UndecryptedAnnotation] = value
		got, err := heartbeat.Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{heartbeat.AllRealms}, got.Undecrypted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
