package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const (
	// certificateInterval is the time between two reads of the serving certificate.
	certificateInterval = time.Second
	// certificateRetry is the time after a read that has failed.
	certificateRetry = 10 * time.Second
)

// servingCertificate is the certificate in two PEM files, which it reads again and again. controller-runtime's
// certwatcher also does that, but its metrics link all typed clients and informers of client-go.
type servingCertificate struct {
	certFile, keyFile string
	logger            *slog.Logger
	cert, key         []byte // the content of the files, used by one goroutine at a time
	current           atomic.Pointer[tls.Certificate]
}

// load reads the files. After an error, the previous certificate remains in use.
func (c *servingCertificate) load() error {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil || bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	c.cert, c.key = cert, key
	c.current.Store(&pair)
	c.logger.Info("Updated current TLS certificate", "cert", c.certFile, "key", c.keyFile)
	return nil
}

// watch loads the certificate when it changes, until ctx is done.
func (c *servingCertificate) watch(ctx context.Context) {
	next := certificateInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
		next = certificateInterval
		if err := c.load(); err != nil {
			c.logger.Error("Failed to read the serving certificate, will retry", "cert", c.certFile, "key", c.keyFile, "error", err)
			next = certificateRetry
		}
	}
}

func (c *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}
