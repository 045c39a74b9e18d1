package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

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
	connection := kmsclient.Options{Socket: cmp.Or(o.KMSSocket, config.KMSSocket), Metrics: kmsclient.NewMetrics(registerer)}
	if kms != nil {
		connection.Timeout = kms.Timeout.Duration
	}
	plugin, err := kmsclient.Dial(connection)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = plugin.Close() }) // No request is in progress any longer.
	sealer.Encrypter = keyencryption.New(plugin)
	return sealer, nil
}
