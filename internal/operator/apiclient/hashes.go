package apiclient

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

// listedHashes returns the hashes that the spec lists, in the same order.
func (seen *observed) listedHashes() []listedHash {
	if seen.hashes != nil {
		return seen.hashes
	}
	var hashes []listedHash
	for _, h := range secretSource(seen.client).Hashed {
		hashes = append(hashes, listedHash{hash: h.Hash, source: secrets.SourceSpec})
	}
	return hashes
}

// readable returns why the hash in a Secret cannot be read, or nil. The Secret may be nil.
func readable(secret *corev1.Secret, ref v1beta1.HashSecretReference) *condition.Result {
	switch {
	case secret == nil:
		return notReady(v1beta1.ReasonSecretNotFound, "Secret %q in spec.secret.hashed.hashSecretRef not found. Create it with the hash of the client secret in key %q and the label %s.", ref.Name, ref.EffectiveKey(), providedLabel)
	case !providedsecrets.Readable(secret):
		return notReady(v1beta1.ReasonSecretNotLabeled, "The operator cannot read Secret %q in spec.secret.hashed.hashSecretRef without the label %s. Add the label; the operator rechecks every minute.", ref.Name, providedLabel)
	}
	return nil
}

// recordedHash returns the recorded hash of a secret from a source; empty if it is another one.
func (seen *observed) recordedHash(id, source string) string {
	for _, s := range seen.recorded.Secrets {
		if s.ID == id && s.Source == source {
			return s.Hash
		}
	}
	return ""
}

// hashIn returns the hash in a Secret, without the line break that files often end with.
func hashIn(secret *corev1.Secret, ref v1beta1.HashSecretReference) listedHash {
	if missing := readable(secret, ref); missing != nil {
		return listedHash{missing: missing}
	}
	value, ok := secret.Data[ref.EffectiveKey()]
	if !ok {
		return listedHash{missing: notReady(v1beta1.ReasonSecretNotFound, "Secret %q has no key %q, which spec.secret.hashed.hashSecretRef selects. Add the key with the hash of the client secret as its value, or correct the reference.", ref.Name, ref.EffectiveKey())}
	}
	return listedHash{hash: strings.TrimSpace(string(value)), source: hashSource(secret, ref)}
}

func hashSource(secret *corev1.Secret, ref v1beta1.HashSecretReference) string {
	return secrets.SourceSpec + ":" + providedsecrets.Version(secret, ref.EffectiveKey())
}

// hashesSupported accepts only hashes that token servers can verify. A message never repeats a hash, which
// could be a plaintext secret.
func (seen *observed) hashesSupported() *condition.Result {
	for i, h := range seen.listedHashes() {
		if h.missing != nil {
			return h.missing
		}
		if _, err := clientsecret.ParseVerifier(h.hash); err != nil {
			listed := secretSource(seen.client).Hashed[i]
			from := ""
			if ref := listed.HashSecretRef; ref.Name != "" {
				from = fmt.Sprintf(", from key %q of Secret %q,", ref.EffectiveKey(), ref.Name)
			}
			return notReady(v1beta1.ReasonHashNotSupported, "The hash %q in spec.secret.hashed%s cannot be used: %v. Replace it, for example with the output of \"kubectl realmkeeper hash\".", listed.ID, from, err)
		}
	}
	return nil
}
