package operator

import (
	"cmp"
	"crypto/rand"
	"time"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

// newSealer returns the Sealer, which generates encrypted keys for realms.
func newSealer(o Options, now func() time.Time) (*sealing.Sealer, error) {
	kms := o.Instance.KeyEncryption.KMS
	switch {
	case kms == nil && o.KMSSocket == "":
		return &sealing.Sealer{Mode: sealing.Off}, nil
	case kms != nil && kms.Decrypt:
		return &sealing.Sealer{Mode: sealing.Decrypt}, nil
	}
	connection := kmsclient.Options{Socket: cmp.Or(o.KMSSocket, config.KMSSocket), Metrics: kmsclient.NewMetrics(ctrlmetrics.Registry)}
	if kms != nil {
		connection.Timeout = kms.Timeout.Duration
	}
	plugin, err := kmsclient.Dial(connection)
	if err != nil {
		return nil, err
	}
	return &sealing.Sealer{Mode: sealing.Encrypt, Encrypter: keyencryption.New(plugin), Now: now, Random: rand.Reader}, nil
}
