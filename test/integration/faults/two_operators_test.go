//go:build nightly

package faults_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// twoOperators is the minimum duration of TestTwoActiveOperators; make soak runs it for 10 minutes.
var (
	twoOperators = flag.Duration("two-operators", 20*time.Second, "Minimum duration of TestTwoActiveOperators")
	faultSeed    = flag.Uint64("faults-seed", 1, "Seed of TestTwoActiveOperators")
)

const (
	// activeClients is the number of clients whose secrets are rotated and that are suspended.
	activeClients = 6
	// longestPause is the maximum time for which an operator is paused, or runs between two pauses.
	longestPause = 3 * time.Second
)

// Two operators are active without leader election, and one at a time is paused and resumed at random.
// Every call with a secret that was delivered succeeds, a suspended client gets no token, and at any time
// one ApiClient holds each client ID.
func TestTwoActiveOperators(t *testing.T) {
	t.Logf("The seed is %d", *faultSeed)
	inst := install.New(t, env.Start(t), install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	second := inst.StartSecondOperator(t, "")
	inst.Create(t, install.Realm("acme"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	checkHolders := startHolders(t, inst)

	a := &active{inst: inst}
	t.Cleanup(func() { // after the clients are no longer tried
		t.Logf("%d calls, %d rotations, %d suspensions, %d holders of one client ID, %d pauses", a.calls.Load(), a.rotations.Load(), a.suspensions.Load(), a.holders.Load(), a.pauses.Load())
	})
	var running sync.WaitGroup
	defer running.Wait()
	for n := range activeClients {
		c := rotatingClient(t, inst, fmt.Sprintf("active-%d", n))
		values := startDelivered(t, inst, c, shortOverlap)
		t.Cleanup(func() { values.stop(); a.calls.Add(values.calls.Load()) })
		running.Go(func() { a.use(ctx, t, c, values, random(n)) })
	}
	running.Go(func() { a.compete(ctx, t, random(activeClients)) })
	choice := random(activeClients + 1)
	for began := time.Now(); !t.Failed() && (time.Since(began) < *twoOperators || !a.complete()); {
		resume := func() { signal(t, second.PID(), syscall.SIGCONT) }
		if choice.IntN(2) == 0 {
			resume = inst.FreezeOperator(t)
		} else {
			signal(t, second.PID(), syscall.SIGSTOP)
		}
		a.pauses.Add(1)
		waitRandom(ctx, choice)
		resume()
		waitRandom(ctx, choice)
	}
	cancel()
	running.Wait()
	checkHolders()
}

// active counts what happens while two operators are active.
type active struct {
	inst                                           *install.Installation
	calls, rotations, suspensions, holders, pauses atomic.Int64
}

// complete reports whether everything has happened at least once.
func (a *active) complete() bool {
	return a.rotations.Load() > 0 && a.suspensions.Load() > 0 && a.holders.Load() > 0
}

// use rotates the secret of a client, or suspends and resumes it, until ctx is done.
func (a *active) use(ctx context.Context, t *testing.T, c *v1beta1.ApiClient, values *delivered, choice *rand.Rand) {
	for ctx.Err() == nil {
		if choice.IntN(2) == 0 {
			scenario.RotateSecret(t, a.inst, c)
			scenario.AwaitSecretRotated(t, a.inst, c)
			a.rotations.Add(1)
			continue
		}
		values.pause()
		install.Change(t, a.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
		awaitProgrammed(t, a.inst, c)
		values.expect(true)
		waitRandom(ctx, choice)
		values.pause()
		install.Change(t, a.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
		a.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
		values.expect(false)
		a.suspensions.Add(1)
	}
}

// compete lets ApiClients compete for one client ID. The holder is deleted again and again.
func (a *active) compete(ctx context.Context, t *testing.T, choice *rand.Rand) {
	contender := func() *v1beta1.ApiClient {
		team := a.inst.Env.Namespace(t)
		c := install.ApiClient(team, "contender", "acme", func(c *v1beta1.ApiClient) { c.Spec.ClientID = "contested" })
		a.inst.Create(t, c)
		return c
	}
	for holder := contender(); ctx.Err() == nil; {
		a.inst.AwaitReady(t, holder, metav1.ConditionTrue, v1beta1.ReasonReady)
		next := contender()
		a.inst.AwaitReady(t, next, metav1.ConditionFalse, v1beta1.ReasonClientIDConflict)
		waitRandom(ctx, choice)
		a.inst.Delete(t, holder)
		holder = next
		a.holders.Add(1)
	}
}

// startHolders checks continuously that the record of a client never names another one. The returned
// function stops it.
func startHolders(t *testing.T, inst *install.Installation) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	owners := map[types.UID]types.UID{} // of records
	running.Go(func() {
		for ; ctx.Err() == nil; waitFor(ctx, betweenReads) {
			records := &corev1.SecretList{}
			if err := inst.Env.Client.List(ctx, records, client.InNamespace(inst.RecordsNamespace), client.HasLabels{v1beta1.RecordLabel}); err != nil {
				continue // the test is ending
			}
			for i := range records.Items {
				secret := &records.Items[i]
				if record.KindOf(secret) != record.KindClient {
					continue
				}
				r, err := record.ReadClient(secret)
				if owner := owners[secret.UID]; err != nil || owner != "" && owner != r.UID {
					t.Errorf("record %s belongs to ApiClient %s and then to %s: %v", secret.Name, owner, r.UID, err)
				}
				owners[secret.UID] = r.UID
			}
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

func random(n int) *rand.Rand {
	return rand.New(rand.NewPCG(*faultSeed, uint64(n)))
}

func waitRandom(ctx context.Context, choice *rand.Rand) {
	waitFor(ctx, time.Duration(choice.Int64N(int64(longestPause))))
}

func waitFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Errorf("Failed to send %s to the second operator: %v", s, err)
	}
}
