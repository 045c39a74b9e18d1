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

// newSealer returns the Sealer, which generates encrypted keys for realms. Its connection is closed when ctx
// ends.
func newSealer(ctx context.Context, o Options, now func() time.Time, registerer prometheus.Registerer) (*sealing.Sealer, error) {
	kms := o.Instance.KeyEncryption.KMS
	switch {
	case kms == nil && o.KMSSocket == "":
		return &sealing.Sealer{Mode: sealing.Off}, nil
	case kms != nil && kms.Decrypt:
		return &sealing.Sealer{Mode: sealing.Decrypt}, nil
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
	return &sealing.Sealer{Mode: sealing.Encrypt, Encrypter: keyencryption.New(plugin), Now: now, Random: rand.Reader}, nil
}
