package clientauth

import (
	"strconv"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
)

// FillAssertions uses assertions of the client until the Authenticator can store no more of them.
func (a *Authenticator) FillAssertions(client *registry.Client, now time.Time) error {
	owner := replay.Owner{Namespace: client.Namespace, UID: client.UID}
	for i := 0; ; i++ {
		if err := a.usedAssertions.Use(owner, strconv.Itoa(i), now.Add(time.Minute), now); err != nil {
			return err
		}
	}
}
