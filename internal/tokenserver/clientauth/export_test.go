package clientauth

import (
	"strconv"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
)

// FillAssertions uses as many assertions as the Authenticator can store for the client.
func (a *Authenticator) FillAssertions(client *registry.Client, now time.Time) error {
	owner := replay.Owner{Namespace: client.Namespace, UID: client.UID}
	for i := range a.usedAssertions.LimitOfOne() {
		if err := a.usedAssertions.Use(owner, strconv.Itoa(i), now.Add(time.Minute), now); err != nil {
			return err
		}
	}
	return nil
}
