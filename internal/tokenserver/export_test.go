package tokenserver

import (
	"context"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
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

// SourceOf gives tests the address that a request counts as coming from.
var SourceOf = sourceOf

// ByAssertionWhenFull is what an assertion comes to when its client has used as many others as are remembered.
func ByAssertionWhenFull(realm *registry.Realm, clientUID string, p *oauth.Parameters, now time.Time) error {
	a := &clientAuthenticator{used: clientassertion.NewMemory()}
	for i := range clientassertion.MaxRememberedOfOne {
		used := &clientassertion.Assertion{Claims: jwt.Claims{ID: strconv.Itoa(i), Expiry: jwt.NewNumericDate(now.Add(time.Minute))}}
		if err := a.used.Use(clientUID, used, now); err != nil {
			return err
		}
	}
	_, err := a.byAssertion(context.Background(), realm, p, now)
	return err
}
