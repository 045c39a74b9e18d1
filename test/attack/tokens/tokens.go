// Package tokens contains attacks on what a token server remembers of tokens. They leave it processor time, so that
// honest clients notice what it forgets because of them.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
	"github.com/realmkeeper/realmkeeper/test/attack/honest"
)

// The names of the attacks.
const (
	// Forged presents variants of a valid token, as a third party does that has seen it.
	Forged = "forged tokens"
	// Distinct requests and presents another token each time, with other scopes than the last one of the client.
	Distinct = "distinct tokens"
)

// Names are the names of the attacks in the order of the report.
var Names = []string{Forged, Distinct}

// Attacks contains the attacks by name.
var Attacks = map[string]attacker.Attack{
	Forged:   {Connections: Clients, Converse: forged},
	Distinct: {Connections: Clients, Converse: distinct},
}

const (
	// Clients is the number of clients that the attackers own. All of them have the secret of the order.
	Clients = 16
	// interval is the time between two requests of a connection, so that all of them send 1,000 requests per second.
	interval = Clients * time.Millisecond
)

// ClientID returns the ID of a client of the attackers. Each connection uses another one.
func ClientID(n int) string { return fmt.Sprintf("attacker-%d", n%Clients) }

var errAccepted = errors.New("a forged token was accepted")

// forged replaces each character of a token in turn.
func forged(ctx context.Context, s *attacker.Session) error {
	return converse(ctx, s, func(c *connection) error {
		valid, err := c.token("")
		for i := 0; err == nil; i++ {
			at, replacement := i%len(valid), "A"
			if valid[at] == 'A' {
				replacement = "B"
			}
			switch err = c.verify(valid[:at] + replacement + valid[at+1:]); {
			case err == nil:
				return errAccepted
			case errors.Is(err, honest.StatusError(http.StatusUnauthorized)):
				err = nil
			}
		}
		return err
	})
}

func distinct(ctx context.Context, s *attacker.Session) error {
	return converse(ctx, s, func(c *connection) error {
		for {
			for _, scope := range []string{"orders:read", "orders:write"} {
				token, err := c.token(scope)
				if err == nil {
					err = c.verify(token)
				}
				if err != nil {
					return err
				}
			}
		}
	})
}

// connection sends requests of one client.
type connection struct {
	ctx      context.Context //nolint:containedctx // It ends the attack.
	session  *attacker.Session
	client   *http.Client
	clientID string
	next     <-chan time.Time
}

// converse opens a connection and uses it until there is an error.
func converse(ctx context.Context, s *attacker.Session, use func(*connection) error) error {
	transport := &http.Transport{MaxConnsPerHost: 1, DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		return s.TLS(ctx, "http/1.1") // until the attack ends, and not only the first request
	}}
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	return use(&connection{ctx, s, &http.Client{Transport: transport}, ClientID(int(s.Number())), tick.C})
}

// wait waits until the next request may be sent, and counts it.
func (c *connection) wait() {
	select {
	case <-c.next:
		c.session.Requested()
	case <-c.ctx.Done():
	}
}

func (c *connection) token(scope string) (string, error) {
	c.wait()
	return honest.Token(c.ctx, c.client, "https://"+c.session.HostName+c.session.Post, c.clientID, c.session.Secret, scope)
}

func (c *connection) verify(token string) error {
	c.wait()
	return honest.Verify(c.ctx, c.client, "https://"+c.session.HostName+c.session.Get, token)
}
