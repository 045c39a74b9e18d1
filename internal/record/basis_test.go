package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/record"
)

func TestBasisOlder(t *testing.T) {
	namespace := func(version, labels string) record.NamespaceBasis {
		return record.NamespaceBasis{UID: "n", Version: version, Labels: labels}
	}
	recorded := record.Basis{Generation: 3, RealmGeneration: 5, Namespace: namespace("90", "a")}
	for name, test := range map[string]struct {
		basis record.Basis
		want  []record.Input
	}{
		"same":                {recorded, nil},
		"newer":               {record.Basis{Generation: 4, RealmGeneration: 6, Namespace: namespace("100", "b")}, nil},
		"older owner":         {record.Basis{Generation: 2, RealmGeneration: 6, Namespace: recorded.Namespace}, []record.Input{record.InputOwner}},
		"older Realm":         {record.Basis{Generation: 4, RealmGeneration: 4, Namespace: recorded.Namespace}, []record.Input{record.InputRealm}},
		"older labels":        {record.Basis{Generation: 4, RealmGeneration: 5, Namespace: namespace("89", "b")}, []record.Input{record.InputNamespace}},
		"same labels":         {record.Basis{Generation: 4, RealmGeneration: 5, Namespace: namespace("89", "a")}, nil},
		"recreated Namespace": {record.Basis{Generation: 4, RealmGeneration: 5, Namespace: record.NamespaceBasis{UID: "m", Version: "89", Labels: "b"}}, nil},
		"unused labels":       {record.Basis{Generation: 4, RealmGeneration: 5}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.basis.Older(&recorded)); diff != "" {
				t.Errorf("older inputs (-want +got):\n%s", diff)
			}
		})
	}
}
