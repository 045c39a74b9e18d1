//go:build unix

package httpserver

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// setReusePort sets SO_REUSEPORT before a socket gets its address.
func setReusePort(_, _ string, c syscall.RawConn) error {
	var optErr error
	err := c.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, optErr)
}
