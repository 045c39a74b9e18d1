package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

// KMS is a connection to a KMS plugin.
type KMS interface {
	keyencryption.Plugin
	io.Closer
}

// newSealer returns the Sealer, which generates keys for realms. Its connection is closed when ctx ends.
func newSealer(ctx context.Context, o Options, now func() time.Time, registerer prometheus.Registerer) (*sealing.Sealer, error) {
	kms := o.Instance.KeyEncryption.KMS
	sealer := &sealing.Sealer{Mode: sealing.Encrypt, Now: now, Random: rand.Reader}
	switch {
	case kms == nil && o.KMSSocket == "":
		sealer.Mode = sealing.Off
		return sealer, nil
	case kms != nil && kms.Decrypt:
		sealer.Mode = sealing.Decrypt
		return sealer, nil
	}
	timeout := keyencryption.DefaultTimeout
	if kms != nil {
		timeout = kms.Timeout.Duration
	}
	plugin, err := o.DialKMS(cmp.Or(o.KMSSocket, config.KMSSocket), timeout, registerer)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = plugin.Close() }) // No request is in progress any longer.
	sealer.Encrypter = keyencryption.New(plugin)
	return sealer, nil
}
