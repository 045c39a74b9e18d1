package tokenserver

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/dpop"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
)

// maxStoredProofs is the maximum number of used proofs that have not expired yet. They use about
// 20 MiB.
const maxStoredProofs = 1 << 19

// proofs checks DPoP proofs (RFC 9449 §4.3) and counts the results. The endpoints share the used
// ones.
type proofs struct {
	used    *replay.Memory
	metrics *Metrics
	logger  *slog.Logger
}

// These errors are logged but not revealed to the client.
var (
	errNoProof       = errors.New("request has no DPoP proof")
	errSeveralProofs = errors.New("request has several DPoP proofs")
)

// check returns the request's proof if it is for want and was created a short time ago. It doesn't
// mark the proof as used.
func (p *proofs) check(endpoint string, header http.Header, want dpop.Want, now time.Time) (*dpop.Proof, error) {
	proof, err := parseProof(header)
	if err == nil {
		err = proof.Check(want, now)
	}
	if err != nil {
		result := resultInvalid
		if errors.Is(err, errNoProof) {
			result = resultMissing
		}
		p.reject(endpoint, result, err)
		return nil, err
	}
	return proof, nil
}

func parseProof(header http.Header) (*dpop.Proof, error) {
	values := header["Dpop"] // the canonical form of net/http
	switch len(values) {
	case 0:
		return nil, errNoProof
	case 1:
		return dpop.Parse(values[0])
	}
	return nil, errSeveralProofs
}

// use marks a proof as used by the client. It is the last check of a request, so that a request that
// fails can be repeated with the same proof.
//
// Errors: replay.ErrUsed; oauth.ErrProofsFull.
func (p *proofs) use(endpoint string, client *registry.Client, proof *dpop.Proof, now time.Time) error {
	// A client may run with several keys, which choose their IDs independently.
	switch err := p.used.Use(replay.Owner{Namespace: client.Namespace, UID: client.UID}, proof.JKT+proof.ID, proof.Expires(), now); {
	case errors.Is(err, replay.ErrFull):
		p.reject(endpoint, resultFull, err)
		return oauth.ErrProofsFull
	case err != nil:
		p.reject(endpoint, resultReplayed, err)
		return err
	}
	p.metrics.proved(endpoint, resultValid)
	return nil
}

func (p *proofs) reject(endpoint, result string, reason error) {
	p.metrics.proved(endpoint, result)
	p.logger.Debug("Rejected DPoP proof", "endpoint", endpoint, "reason", reason)
}
