// Package attacker runs attacks in processes of their own, so that they don't take processor time
// and file descriptors from the honest clients.
package attacker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Attack is a way to attack a server.
type Attack struct {
	// Connections is the number of connections at the same time.
	Connections int
	// Converse opens one connection and uses it until it is of no more use. It is called again as
	// soon as it returns.
	Converse func(ctx context.Context, s *Session) error
}

// Order describes what the processes of an attack do.
type Order struct {
	// Attack is the name of the attack.
	Attack string
	// Address is the host:port to connect to, and HostName the host name in the certificate.
	Address, HostName string
	// Source is the IP address to connect from.
	Source string
	// Get and Post are the paths of a large document and of a form.
	Get, Post string
	// Secret is that of the clients that the attackers own, if the attack needs any.
	Secret string
	// Connections is the number of connections at the same time.
	Connections int
}

const (
	// orderVariable is the environment variable with the JSON of an Order or relayOrder.
	orderVariable = "REALMKEEPER_ATTACK_ORDER"
	relayVariable = "REALMKEEPER_ATTACK_RELAY"
	// dialing is the number of connections that a process opens at the same time.
	dialing = 128
	// pause is the time after a failure to connect.
	pause = 20 * time.Millisecond
)

// Main executes the order of this process, if it has one, and exits. Otherwise it returns. A test
// binary calls it first, because it is also the program of its attackers.
func Main(attacks map[string]Attack) {
	order, relay := os.Getenv(orderVariable), os.Getenv(relayVariable)
	if order == "" && relay == "" {
		return
	}
	if err := obey(attacks, order, relay); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// obey executes an order until the process receives SIGTERM.
func obey(attacks map[string]Attack, order, relay string) error {
	raiseFileLimit()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if order != "" {
		return execute(ctx, attacks, order)
	}
	return executeRelay(ctx, relay)
}

// execute attacks until ctx is done and then prints the Tally as JSON.
func execute(ctx context.Context, attacks map[string]Attack, encoded string) error {
	s := &Session{dialing: make(chan struct{}, dialing), begin: sync.OnceFunc(func() { fmt.Println(begun) })}
	if err := json.Unmarshal([]byte(encoded), &s.Order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	attack, found := attacks[s.Attack]
	if !found {
		return fmt.Errorf("unknown attack %q", s.Attack)
	}
	var working sync.WaitGroup
	for range s.Connections {
		working.Go(func() {
			for ctx.Err() == nil {
				_ = attack.Converse(ctx, s) // the server may end it at any time
			}
		})
	}
	working.Wait()
	return json.NewEncoder(os.Stdout).Encode(s.tally())
}

// wantedFiles is enough for every attack.
const wantedFiles = 100_000

// fileLimit returns how many files a process can open after raiseFileLimit.
func fileLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Max, wantedFiles))
}

// raiseFileLimit raises the limit as far as this user may.
func raiseFileLimit() {
	wanted := unix.Rlimit{Cur: wantedFiles, Max: wantedFiles}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &wanted) == nil {
		return
	}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &wanted) == nil {
		wanted.Cur = wanted.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &wanted) // then there are more processes
	}
}
