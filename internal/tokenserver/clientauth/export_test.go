package clientauth

import (
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

// Argon2idMemory exports argon2idMemory.
var Argon2idMemory = argon2idMemory

// RememberCorrectSecrets remembers the given number of correct secrets. It returns how many are
// kept and whether the newest is among them.
func RememberCorrectSecrets(secrets int) (kept int, newestKept bool) {
	c := newArgon2idChecker(nil)
	var f fingerprint
	for i := range secrets {
		f[0], f[1], f[2] = byte(i), byte(i>>8), byte(i>>16)
		c.remember(f)
	}
	return len(c.recent) + len(c.older), c.remembers(f)
}

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
