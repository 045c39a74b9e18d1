package clientauth

import (
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

// FillAssertions uses as many assertions as the Authenticator can store for one client.
func (a *Authenticator) FillAssertions(clientUID string, now time.Time) error {
	for i := range clientassertion.MaxStoredOfOne {
		used := &clientassertion.Assertion{Claims: jwt.Claims{ID: strconv.Itoa(i), Expiry: jwt.NewNumericDate(now.Add(time.Minute))}}
		if err := a.usedAssertions.Use(clientUID, used, now); err != nil {
			return err
		}
	}
	return nil
}
