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

// The preferred ports, which are easy to remember and to type.
const (
	preferredPublic = 8443
	preferredPortal = 8080
)

// tokenServers is the number of token servers.
const tokenServers = 2

// portsFile keeps the ports for later runs.
const portsFile = "ports.json"

// ports are the ports of a demo on 127.0.0.1. They don't change until the demo is removed.
type ports struct {
	Public           int               `json:"public"`     // HTTPS, shared by the token servers
	Operations       [tokenServers]int `json:"operations"` // health and metrics of each token server
	Portal           int               `json:"portal"`
	PortalOperations int               `json:"portalOperations"`

	// locks reserve ports until a process of the demo inherits them. A port belongs to the
	// demo as long as a process of the demo uses it.
	locks map[int]*os.File
}

// load reads the ports that an earlier run has chosen, if any.
func (p *ports) load(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return json.Unmarshal(content, p)
}

// choose chooses the ports that aren't set and writes all of them to the file.
func (p *ports) choose(path string) error {
	for port, preferred := range map[*int]int{
		&p.Public: preferredPublic, &p.Portal: preferredPortal,
		&p.Operations[0]: 0, &p.Operations[1]: 0, &p.PortalOperations: 0,
	} {
		if *port != 0 {
			continue
		}
		if preferred != 0 && p.reserve(preferred) == nil {
			*port = preferred
			continue
		}
		reserved, err := controlplane.ReservePort()
		if err != nil {
			return err
		}
		*port = reserved.Number()
		p.hold(reserved.Number(), reserved.Lock())
	}
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o600)
}

// reserve reserves one of the demo's ports that none of its processes uses. It takes the same lock
// as controlplane.ReservePort, so that two demos never share a port.
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
		err = checkFree(number)
	}
	if err != nil {
		lock.Release()
		return fmt.Errorf("port %d is used by another program; run make demo-down and make demo to choose another port: %w", number, err)
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

// checkFree returns an error if a program listens on the port. It checks both loopback
// addresses, because *.localhost resolves to both.
func checkFree(number int) error {
	for _, host := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(number)))
		if errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		if err == nil { // other errors mean that there is no IPv6
			listener.Close()
		}
	}
	return nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
