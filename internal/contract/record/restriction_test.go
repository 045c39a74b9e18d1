package record_test

import (
	"encoding/json"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// A restriction that this version doesn't know is not lost when the record is read and written again.
func TestUnknownRestrictionsAreKept(t *testing.T) {
	later := record.Restrictions{"later": json.RawMessage(`{"a":[1,null]}`)}
	realm, client := goodRealm(), goodClient(t)
	realm.Restrictions, client.Restrictions = later, later
	testkit.Diff(t, "realm", later, testkit.Value(record.ReadRealm(realmSecret(t, realm)))(t).Restrictions.Unknown())
	testkit.Diff(t, "client", later, testkit.Value(record.ReadClient(clientSecret(t, client)))(t).Restrictions.Unknown())
	if got := (record.Restrictions{}).Unknown(); got != nil {
		t.Errorf("without restrictions, the unknown ones are %v, want nil", got)
	}
}
