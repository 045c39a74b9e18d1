package operator

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

const (
	// rewrapInterval is the minimum time between two attempts to rewrap the keys of a realm.
	rewrapInterval = time.Hour
	// statusInterval is the time between requests for the status of the KMS plugin. It is at least
	// minStatusInterval, also in tests that shorten intervals.
	statusInterval    = 30 * time.Second
	minStatusInterval = 100 * time.Millisecond
)

// newSealer returns the Sealer, which encrypts the keys of realms, and adds it to the manager.
func newSealer(mgr ctrl.Manager, o Options, now func() time.Time) (*sealing.Sealer, error) {
	kms := o.Instance.KeyEncryption.KMS
	if kms == nil && o.KMSSocket == "" {
		return sealing.New(sealing.Options{Mode: sealing.Off}), nil
	}
	connection := kmsclient.Options{Socket: cmp.Or(o.KMSSocket, config.KMSSocket), Metrics: kmsclient.NewMetrics(ctrlmetrics.Registry)}
	options := sealing.Options{
		Mode: sealing.Encrypt, Now: now, Random: rand.Reader,
		RewrapInterval: o.Instance.Scaled(rewrapInterval), StatusInterval: max(minStatusInterval, o.Instance.Scaled(statusInterval)),
	}
	if kms != nil {
		connection.Timeout = kms.Timeout.Duration
	}
	if kms != nil && kms.Decrypt {
		options.Mode = sealing.Decrypt
	}
	plugin, err := kmsclient.Dial(connection)
	if err != nil {
		return nil, err
	}
	options.Encrypter = keyencryption.New(plugin)
	sealer := sealing.New(options)
	sealer.RegisterMetrics(ctrlmetrics.Registry)
	if err := mgr.Add(sealer); err != nil {
		return nil, fmt.Errorf("adding the encryption of signing keys: %w", err)
	}
	return sealer, nil
}
