package authority_test

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

func TestRenewal(t *testing.T) {
	i := created(t)
	old := i.ca.Bundle()
	if p := i.plan(t, start.Add(publishAfter-time.Second)); steps(p) != "" || p.Authority.Next != nil {
		t.Errorf("step %q before it is time", steps(p))
	}
	i.plan(t, start.Add(publishAfter))
	both := i.ca.Bundle()
	next := i.ca.Next.Chain
	if len(both) != 2 {
		t.Fatalf("%d certificates in the bundle, want 2", len(both))
	}
	if p := i.plan(t, start.Add(moveAfter-time.Second)); steps(p) != "" {
		t.Errorf("step %q before the overlap has passed", steps(p))
	}
	for name, bundle := range map[string][]*x509.Certificate{"old": old, "both": both, "next": next} {
		if err := i.accepted(bundle, start.Add(moveAfter)); err != nil {
			t.Errorf("before the move, with %s: %v", name, err)
		}
	}
	p := i.plan(t, start.Add(moveAfter))
	if steps(p) != authority.Moved || !i.ca.Current.Leaf.Equal(next[0]) || len(i.ca.Previous) != 1 || i.ca.Next != nil {
		t.Errorf("step %q, %d previous CAs", steps(p), len(i.ca.Previous))
	}
	if diff := cmp.Diff(certificate.Encode(both), certificate.Encode(i.ca.Bundle())); diff != "" {
		t.Error("the move changes the bundle")
	}
	for name, bundle := range map[string][]*x509.Certificate{"old": old, "both": both, "next": next} {
		if err := i.accepted(bundle, start.Add(moveAfter)); err != nil {
			t.Errorf("after the move, with %s: %v", name, err)
		}
	}
	if keys := strings.Count(string(secretOf(t, i.ca).Data["tls.key"]), "PRIVATE KEY-----"); keys != 2 || len(secretOf(t, i.ca).Data["next.key"]) > 0 {
		t.Error("the old private key is kept")
	}
	end := start.Add(365*day + time.Second)
	if !p.Next.Equal(end) {
		t.Errorf("next change at %s, want %s", p.Next, end)
	}
	if p := i.plan(t, end); steps(p) != "" || len(p.Bundle()) != 1 || len(p.Chain()) != 0 {
		t.Errorf("step %q, %d certificates in the bundle, %d in the chain after the old CA has expired", steps(p), len(p.Bundle()), len(p.Chain()))
	}
}

// Plans have the precision of seconds, so the next one is never due before now.
func TestFractionsOfSeconds(t *testing.T) {
	short := authority.Policy{Hosts: policy.Hosts, Lifetime: 30 * time.Second, Overlap: 3333 * time.Millisecond, ServingLifetime: 7500 * time.Millisecond}
	var ca *authority.Authority
	count := map[authority.Step]int{}
	for now, n := start, 0; n < 20; n++ {
		now = now.Add(300 * time.Millisecond)
		p, err := authority.Make(now, ca, authority.Facts{}, short, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Next.After(now) {
			t.Fatalf("at %s the next plan is due at %s", now, p.Next)
		}
		ca, now = p.Authority, p.Next
		count[steps(p)]++
	}
	if count[authority.Moved] < 2 || count[authority.Expired] > 0 {
		t.Errorf("steps %v", count)
	}
}

func TestOutdatedCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		outdated int
		at       time.Duration
		want     authority.Step
	}{
		"none, too early":  {0, 7*day - time.Second, ""},
		"none":             {0, 7 * day, authority.Moved},
		"one":              {1, 7 * day, ""},
		"one, day before":  {1, 13 * day, ""},
		"one, at deadline": {1, 14 * day, authority.Forced},
		"many, late":       {20_000, 20 * day, authority.Forced},
		"none, late":       {0, 20 * day, authority.Moved},
	} {
		i := published(t)
		i.facts.Outdated = test.outdated
		if p := i.onlyPlan(t, start.Add(publishAfter+test.at)); steps(p) != test.want {
			t.Errorf("%s: step %q, want %q", name, steps(p), test.want)
		}
	}
}

// An operator that was down catches up without skipping the publication.
func TestLatePlan(t *testing.T) {
	for name, test := range map[string]struct {
		at   time.Duration
		want []authority.Step
	}{
		"some days":                     {publishAfter + 30*day, []authority.Step{authority.Published, authority.Moved}},
		"hours before the end":          {365*day - 3*time.Hour, []authority.Step{authority.Published, authority.Moved}},
		"in the last second":            {365 * day, []authority.Step{authority.Published, authority.Expired}},
		"expired":                       {365*day + time.Second, []authority.Step{authority.Expired}},
		"expired a second time as well": {800 * day, []authority.Step{authority.Expired}},
	} {
		t.Run(name, func(t *testing.T) {
			i := created(t)
			at := start.Add(test.at)
			var got []authority.Step
			for len(got) < len(test.want) {
				p := i.plan(t, at)
				got = append(got, p.Steps...)
				if err := i.accepted(i.ca.Bundle(), at); err != nil {
					t.Errorf("after step %q: %v", steps(p), err)
				}
				at = p.Next
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("expired while the next CA is published", func(t *testing.T) {
		i := published(t)
		next := i.ca.Next.Leaf
		if p := i.plan(t, start.Add(366*day)); steps(p) != authority.Expired || !p.Current.Leaf.Equal(next) {
			t.Errorf("step %q, the next CA signs: %t", steps(p), p.Current.Leaf.Equal(next))
		}
	})
}

func TestClockSteps(t *testing.T) {
	i := published(t)
	if p := i.onlyPlan(t, start); steps(p) != authority.Published || !p.PublishedAt.Equal(start) {
		// The next CA was generated in the future.
		if p.Next.IsZero() || p.Authority.Next != nil {
			t.Errorf("step %q, published at %s", steps(p), p.PublishedAt)
		}
	}
	i = published(t)
	if p := i.onlyPlan(t, start.Add(publishAfter-time.Minute)); steps(p) != authority.Published || !p.PublishedAt.Equal(start.Add(publishAfter-time.Minute)) {
		t.Errorf("a minute back: step %q, published at %s", steps(p), p.PublishedAt)
	}
}

// The operator generated or moved to a CA while the clock was in the future. After the clock is correct
// again, the CA isn't valid yet, and another one signs immediately.
func TestClockReturnsFromFuture(t *testing.T) {
	for name, jumps := range map[string][]time.Duration{
		"created":              {},
		"past the publication": {publishAfter},
		"past the move":        {publishAfter, moveAfter},
		"past the expiration":  {800 * day},
	} {
		t.Run(name, func(t *testing.T) {
			i := created(t)
			for _, jump := range jumps {
				i.plan(t, start.Add(jump))
			}
			at := start.Add(time.Minute)
			if name == "created" {
				at = start.Add(-30 * day)
			}
			wrong := i.ca.Current.Leaf
			p := i.plan(t, at)
			if at.Before(wrong.NotBefore) && steps(p) != authority.NotYetValid {
				t.Errorf("steps %q", steps(p))
			}
			if err := i.accepted(p.Bundle(), at); err != nil {
				t.Error(err)
			}
			for _, c := range p.Bundle() {
				if at.Before(c.NotBefore) {
					t.Errorf("the bundle contains %s, which is not valid before %s", c.Subject, c.NotBefore)
				}
			}
		})
	}
}

func TestChangedHosts(t *testing.T) {
	i := published(t)
	before := i.ca.Bundle()
	renamed := policy
	renamed.Hosts = []string{"api.example.org"}
	p, err := authority.Make(start.Add(publishAfter+day), i.ca, i.facts, renamed, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if steps(p) != authority.Renamed || !certificate.Permits(p.Current.Leaf, renamed.Hosts) || p.Authority.Next != nil || len(p.Bundle()) != 2 {
		t.Errorf("step %q, %d certificates in the bundle (%d before)", steps(p), len(p.Bundle()), len(before))
	}
}

func TestDecode(t *testing.T) {
	valid := func() *corev1.Secret { return secretOf(t, published(t).ca) }
	for name, test := range map[string]struct {
		change func(*corev1.Secret)
		want   error
	}{
		"valid":               {func(*corev1.Secret) {}, nil},
		"Opaque":              {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, authority.ErrUnusable},
		"no key":              {func(s *corev1.Secret) { delete(s.Data, "tls.key") }, authority.ErrUnusable},
		"another key":         {func(s *corev1.Secret) { s.Data["tls.key"] = s.Data["next.key"] }, authority.ErrUnusable},
		"no next key":         {func(s *corev1.Secret) { delete(s.Data, "next.key") }, authority.ErrUnreadable},
		"no next certificate": {func(s *corev1.Secret) { delete(s.Data, "next.crt") }, authority.ErrUnreadable},
		"damaged previous":    {func(s *corev1.Secret) { s.Data["previous.crt"] = []byte("x") }, authority.ErrUnreadable},
		"damaged next":        {func(s *corev1.Secret) { s.Data["next.crt"] = []byte("x") }, authority.ErrUnreadable},
		"damaged time":        {func(s *corev1.Secret) { s.Data["next-published-at"] = []byte("yesterday") }, nil},
		"damaged cross":       {func(s *corev1.Secret) { s.Data["cross.crt"] = []byte("x") }, nil},
		"no time":             {func(s *corev1.Secret) { delete(s.Data, "next-published-at") }, nil},
	} {
		secret := valid()
		test.change(secret)
		a, err := authority.Decode(secret)
		if !errors.Is(err, test.want) || (a == nil) != errors.Is(test.want, authority.ErrUnusable) {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
		if err != nil && !strings.Contains(err.Error(), "realmkeeper-ca") {
			t.Errorf("%s: the error does not name the Secret: %v", name, err)
		}
	}
}
