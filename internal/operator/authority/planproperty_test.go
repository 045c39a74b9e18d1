package authority_test

import (
	"crypto/x509"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
)

// model is an instance over years: an operator that can crash after each write, and clients whose
// credentials Secrets are written with a delay, or never.
type model struct {
	instance

	now time.Time
	// published contains the bundles with the times at which they were written.
	published []bundleAt
	// next is the time of the next plan.
	next time.Time
	// broken reports that a credentials Secret can't be written.
	broken bool
	steps  map[authority.Step]int
}

type bundleAt struct {
	bundle []*x509.Certificate
	at     time.Time
}

// run runs the operator once. It may crash between the two writes.
func (m *model) run(t testing.TB, crash bool) {
	m.facts.Outdated = 0
	if m.ca != nil && m.ca.Next != nil && m.broken {
		m.facts.Outdated = 1
	}
	p := m.onlyPlan(t, m.now)
	for _, step := range p.Steps {
		m.steps[step]++
	}
	m.ca = stored(t, p.Authority)
	if bundle := m.ca.Bundle(); len(m.published) == 0 || !equal(bundle, m.published[len(m.published)-1].bundle) {
		m.published = append(m.published, bundleAt{bundle, m.now})
	}
	if crash {
		m.next = m.now
		return
	}
	m.issue(t, m.now)
	m.next = p.Next
	if m.facts.Outdated > 0 && m.next.After(m.now.Add(12*time.Hour)) {
		m.next = m.now.Add(12 * time.Hour)
	}
	if renew := m.facts.Serving.NotAfter.Add(-policy.ServingLifetime / 3); renew.After(m.now) && renew.Before(m.next) {
		m.next = renew
	}
}

// check checks that every workload reaches the token servers, also one that loaded its bundle up to
// two overlaps ago.
func (m *model) check(t *rapid.T) {
	for i, b := range m.published {
		replacedAt := m.now
		if i+1 < len(m.published) {
			replacedAt = m.published[i+1].at
		}
		if replacedAt.Before(m.now.Add(-2 * policy.Overlap)) {
			continue
		}
		if err := m.accepted(b.bundle, m.now); err != nil {
			t.Fatalf("at %s, a client with the bundle of %s fails: %v", m.now, b.at, err)
		}
	}
	if len(m.ca.Bundle()) > 2 {
		t.Fatalf("%d certificates in the bundle", len(m.ca.Bundle()))
	}
}

func equal(a, b []*x509.Certificate) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

// No client fails in several years of renewals, although the operator crashes and Secrets are written late.
func TestNoClientFails(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{now: start, steps: map[authority.Step]int{}}
		m.run(t, false)
		end := start.Add(2 * 365 * day)
		for m.now.Before(end) {
			m.check(rt)
			m.broken = rapid.IntRange(0, 9).Draw(rt, "broken") == 0
			late := time.Duration(rapid.Int64Range(0, int64(2*day/time.Second)).Draw(rt, "late")) * time.Second
			m.now = m.next.Add(late)
			for rapid.IntRange(0, 3).Draw(rt, "crash") == 0 {
				m.run(t, true)
				m.check(rt)
				m.now = m.now.Add(time.Minute)
			}
			m.run(t, false)
		}
		if m.steps[authority.Moved]+m.steps[authority.Forced] < 2 || m.steps[authority.Expired] > 0 {
			rt.Fatalf("steps: %v", m.steps)
		}
		if most := 2*m.steps[authority.Published] + 1; len(m.published) > most {
			rt.Fatalf("%d changes of the bundle for steps %v", len(m.published), m.steps)
		}
	})
}

// Planning never fails, and the CA that signs is valid, although the clock is wrong.
func TestClockStepsArbitrarily(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		i := &instance{}
		for range rapid.IntRange(1, 20).Draw(rt, "plans") {
			now := start.Add(time.Duration(rapid.Int64Range(0, int64(4*365*day/time.Second)).Draw(rt, "now")) * time.Second)
			i.facts.Outdated = rapid.IntRange(0, 1).Draw(rt, "outdated")
			p := i.plan(t, now)
			if leaf := p.Current.Leaf; now.Before(leaf.NotBefore) || now.After(leaf.NotAfter.Add(time.Second)) {
				rt.Fatalf("at %s the CA is valid from %s until %s", now, leaf.NotBefore, leaf.NotAfter)
			}
			if err := i.accepted(i.ca.Bundle(), now); err != nil {
				rt.Fatalf("at %s, after step %q: %v", now, steps(p), err)
			}
		}
	})
}
