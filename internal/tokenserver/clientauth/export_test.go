package clientauth

import (
	"strconv"
	"time"
)

// FillAssertions uses as many assertions as the Authenticator can store for one client.
func (a *Authenticator) FillAssertions(clientUID string, now time.Time) error {
	for i := range a.usedAssertions.LimitOfOne() {
		if err := a.usedAssertions.Use(clientUID, strconv.Itoa(i), now.Add(time.Minute), now); err != nil {
			return err
		}
	}
	return nil
}
