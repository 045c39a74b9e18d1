package kubectlplugin_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/backup"
	"github.com/realmkeeper/realmkeeper/internal/kubectlplugin"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// What a backup contains about the Realm acme and the ApiClient acme-apps/billing.
var (
	backupTime  = time.Unix(1_800_000_000, 0)
	backedRealm = record.Realm{Name: "acme"}
	realmRecord = backup.Entry{Kind: backup.KindRealmRecord, Name: record.RealmSecretName("r1"), UID: "record-r1"}
	backed      = record.Client{UID: "c1", Namespace: "acme-apps", Name: "billing", RealmName: "acme", RealmUID: "r1", ClientID: "billing"}
	backedEntry = backup.Entry{Kind: backup.KindClientRecord, Name: record.ClientSecretName("r1", "billing"), UID: "record-c1"}
)

func TestPlanRealm(t *testing.T) {
	for name, test := range map[string]struct {
		live    kubectlplugin.Live
		needed  bool
		wantErr error
	}{
		"empty cluster":         {needed: true},
		"created by GitOps":     {live: kubectlplugin.Live{Realm: "r2", Records: map[string]types.UID{record.RealmSecretName("r2"): "record-r2"}}, needed: true},
		"never lost":            {live: kubectlplugin.Live{Realm: "r1", Records: map[string]types.UID{realmRecord.Name: "record-r1"}}},
		"record lost":           {live: kubectlplugin.Live{Realm: "r1"}, needed: true},
		"record damaged":        {live: kubectlplugin.Live{Realm: "r1", Records: map[string]types.UID{realmRecord.Name: "record-r1"}, Unreadable: true}, needed: true},
		"record lost, new keys": {live: kubectlplugin.Live{Realm: "r1", Records: map[string]types.UID{realmRecord.Name: "record-r2"}}, needed: true},
		"restored before": {live: kubectlplugin.Live{
			Realm: "r2", Records: map[string]types.UID{record.RealmSecretName("r2"): "record-r2"}, RestoredFrom: backupTime,
		}},
		"restored from a newer backup": {live: kubectlplugin.Live{
			Realm: "r2", Records: map[string]types.UID{record.RealmSecretName("r2"): "record-r2"}, RestoredFrom: backupTime.Add(time.Hour),
		}},
		"restored from an older backup": {live: kubectlplugin.Live{
			Realm: "r2", Records: map[string]types.UID{record.RealmSecretName("r2"): "record-r2"}, RestoredFrom: backupTime.Add(-time.Hour),
		}, needed: true},
		"being deleted": {live: kubectlplugin.Live{Realm: "r2", RealmDeleting: true}, wantErr: kubectlplugin.ErrDeleting},
	} {
		needed, err := test.live.PlanRealm(&realmRecord, backedRealm, backupTime)
		if needed != test.needed || !errors.Is(err, test.wantErr) {
			t.Errorf("%s: needed %t, %v; want %t, %v", name, needed, err, test.needed, test.wantErr)
		}
	}
}

func TestPlanClient(t *testing.T) {
	current := record.ClientSecretName("r2", "billing")
	for name, test := range map[string]struct {
		live    kubectlplugin.Live
		needed  bool
		wantErr error
	}{
		"empty cluster":     {needed: true},
		"only the realm":    {live: kubectlplugin.Live{Realm: "r2"}, needed: true},
		"created by GitOps": {live: kubectlplugin.Live{Realm: "r2", Client: "c2", Records: map[string]types.UID{current: "record-c2"}}, needed: true},
		// Its secrets were perhaps rotated since, and must not return.
		"never lost": {live: kubectlplugin.Live{Realm: "r1", Client: "c1", Records: map[string]types.UID{backedEntry.Name: "record-c1"}}},
		// The operator has not noticed yet that the ApiClient was deleted or created again.
		"deleted":         {live: kubectlplugin.Live{Realm: "r1", Records: map[string]types.UID{backedEntry.Name: "record-c1"}}, needed: true},
		"created again":   {live: kubectlplugin.Live{Realm: "r1", Client: "c3", Records: map[string]types.UID{backedEntry.Name: "record-c1"}}, needed: true},
		"other client ID": {live: kubectlplugin.Live{Realm: "r2", Client: "c2", ClientID: "other"}, wantErr: kubectlplugin.ErrOtherClient},
		// Its secrets were perhaps revoked since, and must not return.
		"restored before":         {live: kubectlplugin.Live{Realm: "r2", Client: "c2", RestoredFrom: backupTime, Records: map[string]types.UID{current: "x"}}},
		"restored again":          {live: kubectlplugin.Live{Realm: "r2", Client: "c2", RestoredFrom: backupTime, Again: true, Records: map[string]types.UID{current: "x"}}, needed: true},
		"restored and deleted":    {live: kubectlplugin.Live{Realm: "r2", Client: "c3", RestoredFrom: backupTime, Records: map[string]types.UID{current: "x"}}, needed: true},
		"restored, unfinished":    {live: kubectlplugin.Live{Realm: "r2", Client: "c2", RestoredFrom: backupTime, Records: map[string]types.UID{current: "x", record.ClientRestoreName("acme", "billing"): "y"}}, needed: true},
		"restored from a newer":   {live: kubectlplugin.Live{Realm: "r2", Client: "c2", RestoredFrom: backupTime.Add(1), Records: map[string]types.UID{current: "x"}}},
		"restored from an older":  {live: kubectlplugin.Live{Realm: "r2", Client: "c2", RestoredFrom: backupTime.Add(-1), Records: map[string]types.UID{current: "x"}}, needed: true},
		"record damaged":          {live: kubectlplugin.Live{Realm: "r1", Client: "c1", Records: map[string]types.UID{backedEntry.Name: "record-c1"}, Unreadable: true}, needed: true},
		"record lost":             {live: kubectlplugin.Live{Realm: "r1", Client: "c1", Records: map[string]types.UID{backedEntry.Name: "record-c2"}}, needed: true},
		"held by another":         {live: kubectlplugin.Live{Realm: "r2", Records: map[string]types.UID{current: "x"}, Holder: "other/billing"}, wantErr: kubectlplugin.ErrClientIDHeld},
		"being deleted":           {live: kubectlplugin.Live{Realm: "r2", Client: "c2", ClientDeleting: true}, wantErr: kubectlplugin.ErrDeleting},
		"realm being deleted":     {live: kubectlplugin.Live{Realm: "r2", RealmDeleting: true}, wantErr: kubectlplugin.ErrDeleting},
		"held in a deleted realm": {live: kubectlplugin.Live{Records: map[string]types.UID{current: "x"}, Holder: "other/billing"}, needed: true},
	} {
		needed, err := test.live.PlanClient(&backedEntry, backed, backupTime)
		if needed != test.needed || !errors.Is(err, test.wantErr) {
			t.Errorf("%s: needed %t, %v; want %t, %v", name, needed, err, test.needed, test.wantErr)
		}
	}
}
