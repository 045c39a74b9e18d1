package apiclient

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// recordedSecrets returns the secrets in the client's record, which may include some that the spec
// no longer lists.
func recordedSecrets(seen observed, d decision, done applied) []record.ClientSecret {
	switch {
	case d.release:
		return nil
	case d.record != nil && done.recorded:
		return d.record.Secrets
	}
	return seen.current.Secrets
}

// weakHash returns the WeakHash condition of a client with the given secrets, or nil if all of their
// hashes are strong.
func weakHash(secrets []record.ClientSecret) *condition.Result {
	var weak []string
	for _, s := range secrets {
		if verifier, err := clientsecret.ParseVerifier(s.Hash); err == nil && verifier.IsWeak() {
			weak = append(weak, s.ID)
		}
	}
	if len(weak) == 0 {
		return nil
	}
	return &condition.Result{
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonImportedHash,
		Message: fmt.Sprintf("These secrets are hashed with PBKDF2 or bcrypt, which are cheaper to guess than Argon2id: %s. Replace them with a generated secret, or replace their hashes with Argon2id hashes, such as the output of \"kubectl realmkeeper hash\".",
			enumerate(weak)),
	}
}
