package attacker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// grace is how long a process may take to close its connections.
const grace = 20 * time.Second

// begun is what an attacker prints when its first connection is open.
const begun = "Attacking"

var errNotBegun = errors.New("the attacker has not begun")

// Running is an attack that runs.
type Running struct {
	processes []*process.Process
	stop      func() Tally
}

// Start starts an attack, in as many processes as it needs to open its connections, and returns when
// each has opened a connection. The attack runs until Stop or the end of the test.
func Start(t testing.TB, order Order) *Running {
	t.Helper()
	const reserved = 100
	count := 1 + order.Connections/(fileLimit()-reserved)
	r := &Running{}
	r.stop = sync.OnceValue(func() (sum Tally) {
		for _, p := range r.processes {
			one, err := tally(p)
			if err != nil {
				t.Errorf("The attack %s failed: %v", order.Attack, err)
			}
			sum.add(one)
		}
		return sum
	})
	t.Cleanup(func() { r.Stop() })
	dir := t.TempDir()
	for n := range count {
		part := order
		part.Connections = order.Connections / count
		p, err := self(dir, fmt.Sprintf("attacker-%d", n), orderVariable, part)
		if err != nil {
			t.Fatal(err)
		}
		r.processes = append(r.processes, p)
	}
	for _, p := range r.processes {
		install.Eventually(t, "the attack to begin", func() error {
			if !strings.Contains(p.LogTail(), begun) {
				return errors.Join(errNotBegun, p.Exited())
			}
			return nil
		})
	}
	return r
}

// Stop ends the attack and returns what it did.
func (r *Running) Stop() Tally { return r.stop() }

func tally(p *process.Process) (Tally, error) {
	var t Tally
	if err := p.Stop(grace); err != nil {
		return t, err
	}
	lines := strings.Split(p.LogTail(), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &t); err != nil {
		return t, fmt.Errorf("%w; end of its log:\n%s", err, p.LogTail())
	}
	return t, nil
}

// self starts this test binary once more with an order. Attackers have a lower priority than the
// honest clients and the relay, because a real attacker doesn't slow those down.
func self(dir, name, variable string, order any) (*process.Process, error) {
	encoded, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	command := process.Command{Name: name, Path: os.Args[0], Dir: dir, Env: []string{variable + "=" + string(encoded)}}
	if variable == orderVariable {
		command.Path, command.Args = "/bin/sh", []string{"-c", `exec nice -n 10 "$0"`, os.Args[0]}
	}
	return process.Start(command)
}
