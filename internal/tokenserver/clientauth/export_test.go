package clientauth

import (
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

// SlowRoom gives tests the memory for slow verifications.
var SlowRoom = slowRoom

// Remembered is how many good results a server keeps in mind after that many.
func Remembered(results int) (kept int, newestKept bool) {
	s := newSlowSecrets(nil)
	var result fingerprint
	for i := range results {
		result[0], result[1], result[2] = byte(i), byte(i>>8), byte(i>>16)
		s.remember(result)
	}
	return len(s.recent) + len(s.older), s.remembers(result)
}

// FillAssertions uses as many assertions of a client as are remembered.
func (a *Authenticator) FillAssertions(clientUID string, now time.Time) error {
	for i := range clientassertion.MaxRememberedOfOne {
		used := &clientassertion.Assertion{Claims: jwt.Claims{ID: strconv.Itoa(i), Expiry: jwt.NewNumericDate(now.Add(time.Minute))}}
		if err := a.used.Use(clientUID, used, now); err != nil {
			return err
		}
	}
	return nil
}
