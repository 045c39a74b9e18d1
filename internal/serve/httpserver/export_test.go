package httpserver

import (
	"context"
	"crypto/tls"
	"log/slog"
)

// MemoryShort reports whether connections are closed because of what two checks of the memory have found: the
// bytes in use and the number of garbage collections.
func MemoryShort(before, live, collections uint64, limit int64) bool {
	return heap{live, collections}.short(heap{live, before}, limit)
}

// WatchCertificate loads the serving certificate, and again when it changes, until ctx is done.
func WatchCertificate(ctx context.Context, certFile, keyFile string, logger *slog.Logger) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	c := &servingCertificate{certFile: certFile, keyFile: keyFile, logger: logger}
	if err := c.load(); err != nil {
		return nil, err
	}
	go c.watch(ctx)
	return c.get, nil
}
