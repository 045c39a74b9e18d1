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

// The ports lie below those that the kernel gives to outgoing connections (32768 and
// up on Linux), so that none is lost between the reservation and the listening.
const (
	firstPort = 20000
	lastPort  = 29999
)

// Port is a TCP port of 127.0.0.1 that no other holder of a Port has.
type Port struct {
	number int
	lock   filelock.Lock
}

// ReservePort reserves a port that nobody listens on. It stays reserved until Release
// or until this process ends, however that happens, because the reservation is a file
// lock. Runs of the same user on one machine therefore never collide.
func ReservePort() (*Port, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	dir := filepath.Join(cache, "realmkeeper", "ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	// A random start keeps a port that has just been in use, whose clients may still
	// be calling, from being the first to be taken again.
	const count = lastPort - firstPort + 1
	start := rand.IntN(count) //nolint:gosec // Nothing is guarded by it.
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
	return nil, fmt.Errorf("reserve a port: all from %d to %d are taken", firstPort, lastPort)
}

// free tells whether nobody listens, not even one who knows nothing of the locks.
func (p *Port) free() bool {
	listener, err := net.Listen("tcp", p.Address())
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// Number is the port's number.
func (p *Port) Number() int { return p.number }

// Address is the port's host:port.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Lock is the file whose lock is the reservation. A child process that inherits it
// (process.Command.Inherit) keeps the port reserved as long as it lives.
func (p *Port) Lock() *os.File { return p.lock.File() }

// Release gives this process's hold on the port up.
func (p *Port) Release() { p.lock.Release() }

// ports are those of one control plane.
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
