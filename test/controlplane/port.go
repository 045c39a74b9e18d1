package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
)

// The ports are below the range that the kernel uses for outgoing connections (32768 and
// higher on Linux), so that the kernel doesn't take a port between its reservation and use.
const (
	firstPort = 20000
	lastPort  = 29999
)

// Port is a TCP port on 127.0.0.1 that is reserved for its holder.
type Port struct {
	number int
	lock   filelock.Lock
}

// ReservePort reserves an unused port until Release or until this process exits or crashes,
// because the reservation is a file lock. Processes of the same user never reserve the same
// port.
func ReservePort() (*Port, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	dir := filepath.Join(cache, "realmkeeper", "ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	// Start at a random port, so that a recently used port, whose clients may still be
	// connecting, isn't the first to be reused.
	const count = lastPort - firstPort + 1
	start := rand.IntN(count) //nolint:gosec // Not used for security.
	for i := range count {
		number := firstPort + (start+i)%count
		lock, err := filelock.Try(filepath.Join(dir, strconv.Itoa(number)))
		if errors.Is(err, filelock.ErrLocked) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reserve a port: %w", err)
		}
		port := &Port{number: number, lock: lock}
		if port.free() {
			return port, nil
		}
		port.Release()
	}
	return nil, fmt.Errorf("reserve a port: all ports from %d to %d are in use", firstPort, lastPort)
}

// free reports whether no program listens on the port, including programs that don't use
// the locks.
func (p *Port) free() bool {
	listener, err := net.Listen("tcp", p.Address())
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// Number returns the port number.
func (p *Port) Number() int { return p.number }

// Address returns the host:port of the port.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Lock returns the locked file. A child process that inherits it (process.Command.Inherit)
// keeps the port reserved while it runs.
func (p *Port) Lock() *os.File { return p.lock.File() }

// Release releases this process's reservation.
func (p *Port) Release() { p.lock.Release() }

// ports are the ports of one control plane.
type ports struct {
	etcdClient, etcdPeer, apiServer *Port
}

func reservePorts() (ports, error) {
	var p ports
	for _, port := range []**Port{&p.etcdClient, &p.etcdPeer, &p.apiServer} {
		var err error
		if *port, err = ReservePort(); err != nil {
			p.release()
			return ports{}, err
		}
	}
	return p, nil
}

func (p ports) release() {
	for _, port := range []*Port{p.etcdClient, p.etcdPeer, p.apiServer} {
		if port != nil {
			port.Release()
		}
	}
}
