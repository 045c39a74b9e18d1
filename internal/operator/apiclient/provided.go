package apiclient

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

// providedUnchanged reports whether the record contains this version of the provided secret or,
// because the cache is stale, a newer one.
func (seen *observed) providedUnchanged() bool {
	source := seen.recordedProvided().Source
	if source == providedVersion(seen) {
		return true
	}
	fields := strings.Split(source, "/")
	if len(fields) != 3 || fields[0] != string(seen.provided.UID) || fields[2] != providedKey(seen.client) {
		return false // The spec refers to a different Secret or key.
	}
	order, err := resourceversion.CompareResourceVersion(fields[1], seen.provided.ResourceVersion)
	return err == nil && order > 0
}

// recordedProvided returns the provided secret in the record that has not been replaced; empty if
// there is none.
func (seen *observed) recordedProvided() record.ClientSecret {
	for _, s := range slices.Backward(seen.recorded.Secrets) {
		if secrets.IsProvided(s) {
			return s
		}
	}
	return record.ClientSecret{}
}

// knownHash returns the hash that the value of the provided Secret probably has: that of the recorded
// secret, or else of a restored one. The value then keeps it, and is not accepted twice.
func (seen *observed) knownHash() string {
	if recorded := seen.recordedProvided(); recorded.Hash != "" {
		return recorded.Hash
	}
	for _, s := range slices.Backward(seen.restoredSecrets()) {
		if secrets.OfProvided(s.Source) {
			return s.Hash
		}
	}
	return ""
}

// providedVersion returns the string that identifies the version of the provided secret.
func providedVersion(seen *observed) string {
	return providedsecrets.Version(seen.provided, providedKey(seen.client))
}

// waitingForHash is the result while the provided secret is not hashed.
var waitingForHash = condition.Progressing("Waiting for the hash of the provided client secret. Until it is ready, the client keeps the secrets that it has.")

// mustHash reports whether the provided secret must be hashed. A client that is rejected for another
// reason causes no work.
func mustHash(seen *observed, accepted condition.Result) bool {
	return seen.unhashed && (accepted.Status == metav1.ConditionTrue || stillRejected(seen) != nil && accepted == *stillRejected(seen))
}

// providedLabel is the label that allows the operator to read a Secret, as in a manifest.
const providedLabel = v1beta1.ClientSecretLabel + ": \"" + v1beta1.ClientSecretProvided + "\""

func (seen *observed) secretProvided() *condition.Result {
	reference := secretSource(seen.client).Provided
	if reference == nil {
		return nil
	}
	name, key := reference.SecretRef.Name, reference.SecretRef.EffectiveKey()
	if seen.provided == nil {
		return notReady(v1beta1.ReasonSecretNotFound, "Secret %q in spec.secret.provided.secretRef not found. Create it with the client secret in key %q and the label %s.", name, key, providedLabel)
	}
	if !providedsecrets.Readable(seen.provided) {
		return notReady(v1beta1.ReasonSecretNotLabeled, "The operator cannot read Secret %q in spec.secret.provided.secretRef without the label %s. Add the label; the operator rechecks every minute.", name, providedLabel)
	}
	switch err := seen.value.Err; {
	case seen.unhashed:
		return stillRejected(seen)
	case errors.Is(err, providedsecrets.ErrNoKey):
		return notReady(v1beta1.ReasonSecretNotFound, "Secret %q has no key %q, which spec.secret.provided.secretRef selects. Add the key with the client secret as its value, or correct the reference.", name, key)
	case errors.Is(err, clientsecret.ErrNotUsable):
		return notReady(v1beta1.ReasonSecretNotUsable, "The value of key %q in Secret %q cannot be used as a client secret. Use UTF-8 with at most %d characters and without control characters, such as a trailing line break.", key, name, clientsecret.MaxChosenLength)
	case err != nil:
		return notReady(v1beta1.ReasonSecretTooShort, "The value of key %q in Secret %q has fewer than %d characters. Use a longer client secret.", key, name, clientsecret.MinChosenLength)
	}
	return nil
}

// stillRejected returns the previous result if the client has been rejected because of its provided
// secret, and nil otherwise. While the current version is checked, for example after a restart,
// nothing changes.
func stillRejected(seen *observed) *condition.Result {
	before := meta.FindStatusCondition(seen.client.Status.Conditions, string(v1beta1.ConditionAccepted))
	if seen.recordSecret != nil && !seen.recorded.Disabled || before == nil || before.Status != metav1.ConditionFalse || !strings.HasPrefix(before.Reason, "Secret") {
		return nil
	}
	return notReady(v1beta1.ConditionReason(before.Reason), "%s", before.Message)
}
