package clients_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A use is shown in the status. A killed server loses the uses that it hasn't reported: each use is
// either shown, or before the time that the operator records as the one before which uses may be
// missing.
func TestLastUse(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{SpeedUp: 60}) // a period of a minute, and reports every second
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	killed := inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	var all []*v1beta1.ApiClient
	for i := range 2 {
		c := install.ApiClient(inst.Env.Namespace(t), fmt.Sprint("client-", i), "acme")
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
		all = append(all, c)
	}
	use := func(s *install.TokenServer, c *v1beta1.ApiClient) (at time.Time) {
		t.Helper()
		at = time.Now()
		if response, err := install.RequestToken(t, s, s.Client(t), inst.CredentialsSecret(t, c)); err != nil || response.AccessToken == "" {
			t.Fatalf("no token: %+v, %v", response, err)
		}
		return at
	}
	lastUse := func(c *v1beta1.ApiClient) *metav1.Time {
		t.Helper()
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		return c.Status.Secrets()[0].LastUsedTime
	}
	shown, restarted := all[0], all[1]

	at := use(killed, shown)
	install.Eventually(t, "the use to be shown", func() error {
		if lastUse(shown) == nil {
			return fmt.Errorf("the status is %+v", shown.Status)
		}
		return nil
	})
	if got := lastUse(shown); got.Time.Before(usage.Truncate(at, time.Minute)) || got.After(time.Now()) || !got.Equal(shown.Status.LastUsedTime) {
		t.Errorf("the last use is %s, and that of the client %s, want the minute of %s", got, shown.Status.LastUsedTime, at)
	}

	before := lost(t, inst)
	at = use(killed, restarted)
	killed.KillAndRestart(t)
	killed.AwaitReady(t)
	if lastUse(restarted) == nil {
		awaitLost(t, inst, at)
	}
	awaitLost(t, inst, before.Add(1))
}

// lost returns the time that the operator has persisted as the time before which uses may be missing.
func lost(t *testing.T, inst *install.Installation) time.Time {
	t.Helper()
	state := &corev1.ConfigMap{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: lastuse.StateName}, state); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, state.Data["lost"])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func awaitLost(t *testing.T, inst *install.Installation, since time.Time) {
	t.Helper()
	install.Eventually(t, "the operator to persist that uses are missing", func() error {
		if at := lost(t, inst); at.Before(since) {
			return fmt.Errorf("uses may be missing before %s, want %s", at, since)
		}
		return nil
	})
}
