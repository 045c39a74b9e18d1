//go:build !unix

package httpserver

import (
	"errors"
	"syscall"
)

// setReusePort fails, because the system can't share a port. Servers run on Linux; on other systems,
// only the local issuer does.
func setReusePort(string, string, syscall.RawConn) error { return errors.ErrUnsupported }
