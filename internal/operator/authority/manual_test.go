package authority_test

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
)

// What clients trusted before stays in the bundle.
func TestReplacedByUser(t *testing.T) {
	at := start.Add(10 * day)
	for name, test := range map[string]struct {
		from  func(testing.TB) *instance
		put   func(t *testing.T, i *instance) *authority.Authority
		want  authority.Step
		total int // certificates in the bundle
	}{
		"another CA": {created, func(t *testing.T, _ *instance) *authority.Authority {
			return &authority.Authority{Current: newCA(t, at, 200*day)}
		}, authority.Adopted, 2},
		"another CA during a renewal": {published, func(t *testing.T, _ *instance) *authority.Authority {
			return &authority.Authority{Current: newCA(t, at, 1000*day)}
		}, authority.Adopted, 3},
		"only its certificate and key": {published, func(t *testing.T, i *instance) *authority.Authority {
			changed := *i.ca
			changed.Current = newCA(t, at, 1000*day)
			return &changed
		}, authority.Adopted, 3},
		"the next one, early": {published, func(_ *testing.T, i *instance) *authority.Authority {
			return &authority.Authority{Current: i.ca.Next}
		}, authority.Adopted, 2},
		"deleted": {created, func(*testing.T, *instance) *authority.Authority { return nil }, authority.Created, 2},
		"another CA that expires soon": {created, func(t *testing.T, _ *instance) *authority.Authority {
			return &authority.Authority{Current: newCA(t, at, 50*day)}
		}, "Adopted,Published", 3},
		"an expired CA": {created, func(t *testing.T, _ *instance) *authority.Authority {
			return &authority.Authority{Current: newCA(t, start, 5*day)}
		}, "Adopted,Expired", 2},
		"a next CA": {created, func(t *testing.T, i *instance) *authority.Authority {
			return &authority.Authority{Current: i.ca.Current, Next: newCA(t, at, 1000*day)}
		}, authority.Published, 2},
		"a certificate in the bundle": {created, func(t *testing.T, i *instance) *authority.Authority {
			return &authority.Authority{Current: i.ca.Current, Previous: newCA(t, at, 100*day).Chain}
		}, "", 2},
		"a removed certificate": {func(t testing.TB) *instance {
			i := published(t)
			i.plan(t, start.Add(moveAfter))
			return i
		}, func(_ *testing.T, i *instance) *authority.Authority {
			return &authority.Authority{Current: i.ca.Current, Cross: i.ca.Cross}
		}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			i := test.from(t)
			before := i.ca.Bundle()
			i.ca = test.put(t, i)
			now := at
			if len(before) > 1 {
				now = start.Add(moveAfter)
				i.facts.Outdated = 1
			}
			p := i.plan(t, now)
			if steps(p) != test.want || len(p.Bundle()) != test.total {
				t.Errorf("step %q, want %q; %d certificates in the bundle, want %d", steps(p), test.want, len(p.Bundle()), test.total)
			}
			if err := i.accepted(p.Bundle(), now); err != nil {
				t.Error(err)
			}
		})
	}
}

// A CA that a user brings as the next one replaces the current one like any other.
func TestNextCAFromUser(t *testing.T) {
	i := created(t)
	at := start.Add(20 * day)
	old := i.ca.Bundle()
	i.ca.Next = newCA(t, at, 1000*day)
	i.plan(t, at)
	if p := i.plan(t, at.Add(7*day)); steps(p) != authority.Moved {
		t.Errorf("step %q", steps(p))
	}
	if err := i.accepted(old, at.Add(7*day)); err != nil {
		t.Errorf("with the old CA: %v", err)
	}
}

// A next CA that isn't valid yet signs only from then on.
func TestNextCAFromUserIsNotValidYet(t *testing.T) {
	i := created(t)
	valid := start.Add(30 * day)
	i.ca.Next = usersCA(t, valid, 100*day)
	if p := i.plan(t, start); steps(p) != authority.Published || !p.Next.Equal(valid) {
		t.Errorf("step %q, the next change is at %s, want %s", steps(p), p.Next, valid)
	}
	if p := i.plan(t, valid.Add(-time.Second)); steps(p) != "" {
		t.Errorf("step %q before the next CA is valid", steps(p))
	}
	if p := i.plan(t, valid); steps(p) != authority.Moved {
		t.Errorf("step %q, want the next CA to sign", steps(p))
	}
}

// The CA of a user signs until its successor needs the rest of its time.
func TestUsersCAIsUsedAsLongAsPossible(t *testing.T) {
	i := &instance{ca: &authority.Authority{Current: usersCA(t, start, 60*day)}}
	own := i.ca.Current.Leaf
	publish := start.Add((60 - 2*7) * day).Add(-7 * day / 4)
	if p := i.plan(t, start); steps(p) != "" || !p.Next.Equal(publish) {
		t.Errorf("step %q, the next change is at %s, want %s", steps(p), p.Next, publish)
	}
	if p := i.plan(t, publish); steps(p) != authority.Published {
		t.Errorf("step %q, want the successor published", steps(p))
	}
	if p := i.plan(t, publish.Add(7*day)); steps(p) != authority.Moved {
		t.Errorf("step %q, want the successor to sign", steps(p))
	}
	if err := i.accepted([]*x509.Certificate{own}, own.NotAfter); err != nil {
		t.Errorf("a client that trusts only the user's CA fails before it expires: %v", err)
	}
}

// The operator generates parts that can't be read again, and continues.
func TestUnreadablePartsAreGeneratedAgain(t *testing.T) {
	i := published(t)
	both := i.ca.Bundle()
	secret := secretOf(t, i.ca)
	for _, key := range []string{"cross.crt", "next-cross.crt", "next-published-at"} {
		secret.Data[key] = []byte("x")
	}
	var err error
	if i.ca, err = authority.Decode(secret); err != nil {
		t.Fatal(err)
	}
	at := start.Add(publishAfter + day)
	if p := i.plan(t, at); steps(p) != authority.Published || !p.PublishedAt.Equal(at) {
		t.Errorf("step %q, published at %s", steps(p), p.PublishedAt)
	}
	for n, moved := range []bool{false, true} {
		if moved {
			i.plan(t, at.Add(7*day))
		}
		for _, ca := range both {
			if err := i.accepted([]*x509.Certificate{ca}, at.Add(7*day)); err != nil {
				t.Errorf("%d: a client that trusts only %s fails: %v", n, ca.Subject, err)
			}
		}
	}
}

func TestUnusableCA(t *testing.T) {
	foreign := &authority.Authority{Current: usersCA(t, start, 1000*day, "www.example.org")}
	if _, err := authority.Make(start, foreign, authority.Facts{}, policy, rand.Reader); !errors.Is(err, authority.ErrUnusable) {
		t.Errorf("a user's CA for other names: error %v, want %v", err, authority.ErrUnusable)
	}
	future := &authority.Authority{Current: usersCA(t, start.Add(day), 100*day)}
	if _, err := authority.Make(start, future, authority.Facts{}, policy, rand.Reader); !errors.Is(err, authority.ErrUnusable) {
		t.Errorf("a CA that is not valid yet: error %v, want %v", err, authority.ErrUnusable)
	}
}
