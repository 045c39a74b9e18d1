// Package restore puts the realms and clients of a backup back into a cluster: their objects, signing
// keys, identities, and verifiers of client secrets. It holds the operator's leader Lease meanwhile, so
// it is the only writer of records. Every write either creates an object or depends on the revision that
// it was decided from. A restore that stops halfway can therefore be run again.
package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// Errors of a restore. Nothing was written, except with ErrIncomplete.
var (
	ErrOtherService   = errors.New("the backup belongs to another token service")
	ErrUnknownService = errors.New("the base URL of the token service is unknown")
	ErrRejected       = errors.New("the backup cannot be restored into this cluster, and nothing was written")
	ErrIncomplete     = errors.New("the restore is incomplete; run the same command again to complete it")

	// Causes of ErrRejected.
	ErrLiving      = errors.New("the realm is in use")
	ErrTooManyKeys = errors.New("the realm would have too many signing keys")
	// ErrDeleting is a cause of ErrRejected for a Realm. For an ApiClient, it is in the report.
	ErrDeleting = errors.New("it is being deleted; remove its finalizers or wait until it is gone, and restore again")
	// Problems of ApiClients in the report.
	ErrClientIDHeld = errors.New("another client holds the client ID")
	ErrOtherClient  = errors.New("its realm or client ID is not that of the backup")
)

// Restore restores a backup.
type Restore struct {
	Client client.Client
	// SystemNamespace contains the leader Lease, and RecordsNamespace the records.
	SystemNamespace, RecordsNamespace string
	// ServiceURL is the base URL of the issuers of this cluster, such as https://api.example.com. It is
	// empty if it is unknown.
	ServiceURL string
	// Source is the backup, and Contents what backup.Check has returned for it.
	Source   *backup.Source
	Contents *backup.Contents
	// Realm limits the restore to one realm and its clients; empty restores all.
	Realm string
	// Replace also restores realms that are in use, and what was restored from the backup before.
	Replace bool
	// Now returns the time of the API server.
	Now func() time.Time
	// Progress is called with what the restore waits for.
	Progress func(string)
}

// Check checks the whole backup against the cluster and returns what Run would do. It writes nothing. An
// ApiClient with a problem doesn't affect others: the report contains it.
//
// Errors: ErrOtherService, ErrUnknownService, ErrRejected.
func (r *Restore) Check(ctx context.Context) (*Report, error) {
	if err := r.checkServiceURLs(); err != nil {
		return nil, err
	}
	p, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	return p.report, nil
}

// Run restores the backup and returns what it did. It checks everything before it takes the leader Lease,
// and again after that. The report also contains ApiClients that could not be written.
//
// Errors: those of Check, leader.ErrRestoreRunning, ErrIncomplete.
func (r *Restore) Run(ctx context.Context) (*Report, error) {
	if _, err := r.Check(ctx); err != nil {
		return nil, err
	}
	ctx, held, err := r.lease().Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer held.Release(ctx)
	p, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.write(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return p.report, nil
}

func (r *Restore) lease() *leader.Restorer {
	return &leader.Restorer{
		Client: r.Client, Namespace: r.SystemNamespace, FieldOwner: fieldOwner, Now: r.Now,
		Waiting: func(holder string, wait time.Duration) {
			r.Progress(fmt.Sprintf("Waiting %s until operator %s has stopped; it continues after the restore", wait, holder))
		},
	}
}

// checkServiceURLs checks that the issuers of the realms don't change. A realm with an old issuer is
// restored if the cluster of the backup had the same service URL as this one.
func (r *Restore) checkServiceURLs() error {
	for _, realm := range slices.Sorted(maps.Keys(r.Contents.ServiceURLs)) {
		url := r.Contents.ServiceURLs[realm]
		switch {
		case r.Realm != "" && r.Realm != realm:
		case r.ServiceURL == "":
			return fmt.Errorf("%w, because no Realm exists and the instance configuration cannot be read; if this cluster serves %s, set --service-url %s", ErrUnknownService, url, url)
		case url != r.ServiceURL && r.Contents.Header.ServiceURL != r.ServiceURL:
			return fmt.Errorf("%w: the issuer of Realm %s starts with %s, and those of this cluster with %s; configure the same instanceDomain and externalPort and restore again, or restore other realms with --realm", ErrOtherService, realm, url, r.ServiceURL)
		}
	}
	return nil
}
