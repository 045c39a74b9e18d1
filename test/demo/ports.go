package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
)

// preferredPort is the public port where it is free: easy to remember and to type.
const preferredPort = 8443

// tokenServers is their number.
const tokenServers = 2

// portsFile keeps the ports for later runs.
const portsFile = "ports.json"

// ports are those of a demo, all on 127.0.0.1. They stay the same as long as it lives.
type ports struct {
	Public     int               `json:"public"`     // HTTPS, which the token servers share
	Operations [tokenServers]int `json:"operations"` // health and metrics, one for each

	// locks reserve the ports that no process of the demo holds yet. Processes inherit
	// them: a port is the demo's as long as a process uses it.
	locks map[int]*os.File
}

// load reads the ports of an earlier run, if it came as far as to choose any.
func (p *ports) load(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return json.Unmarshal(content, p)
}

func (p *ports) save(path string) error {
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o600)
}

// choose takes ports for a new demo.
func (p *ports) choose() error {
	for i := range p.Operations {
		port, err := controlplane.ReservePort()
		if err != nil {
			return err
		}
		p.Operations[i] = port.Number()
		p.hold(port.Number(), port.Lock())
	}
	if p.reserve(preferredPort) == nil {
		p.Public = preferredPort
		return nil
	}
	port, err := controlplane.ReservePort()
	if err != nil {
		return err
	}
	p.Public = port.Number()
	p.hold(port.Number(), port.Lock())
	return nil
}

// reserve takes a port of the demo again that no process of it holds. The lock is the
// one that controlplane.ReservePort takes, so that two demos never share a port.
func (p *ports) reserve(number int) error {
	if p.locks[number] != nil {
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "realmkeeper", "ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := filelock.Try(filepath.Join(dir, strconv.Itoa(number)))
	if err == nil {
		err = free(number)
	}
	if err != nil {
		lock.Release()
		return fmt.Errorf("port %d is taken by another program; make demo-down and make demo choose another: %w", number, err)
	}
	p.hold(number, lock.File())
	return nil
}

func (p *ports) hold(number int, lock *os.File) {
	if p.locks == nil {
		p.locks = map[int]*os.File{}
	}
	p.locks[number] = lock
}

// free tells whether nobody listens. Clients find *.localhost under both addresses.
func free(number int) error {
	for _, host := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(number)))
		if errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		if err == nil { // else there is no IPv6 here
			listener.Close()
		}
	}
	return nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
