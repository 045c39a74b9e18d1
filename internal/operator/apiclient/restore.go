package apiclient

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// restoredSecrets returns the secrets of the backup that the client may accept.
func (seen *observed) restoredSecrets() []record.ClientSecret {
	if seen.recorded.Restored == nil || seen.revokedSinceRestore() {
		return nil
	}
	return seen.recorded.Restored.Secrets
}

// revokedSinceRestore reports whether a user has revoked the client's tokens since the restore, which
// also revokes the secrets of the backup. Only the spec decides: a missing credentials Secret may have been
// revoked or lost, and the operator may see its deletion before or after the change of the spec.
func (seen *observed) revokedSinceRestore() bool {
	current, after := seen.recorded.Restored, seen.client.Spec.TokensValidAfterTime
	return current != nil && after != nil && !after.Time.Before(current.At) && after.After(current.TokensValidAfter)
}

// restoredWith returns what the client's record says about its restore, with the given secrets; nil if the
// client was not restored.
func (seen *observed) restoredWith(secrets []record.ClientSecret) *record.Restored {
	if seen.recorded.Restored == nil {
		return nil
	}
	kept := *seen.recorded.Restored
	kept.Secrets = secrets
	return &kept
}

// identityInTokens returns the client's identity in tokens: the one that its record has, which may be that of a
// backup, or its UID.
func identityInTokens(seen *observed) types.UID {
	if seen.recordSecret != nil {
		return seen.recorded.Identity
	}
	return seen.client.UID
}

// restored returns the Restored condition of a client whose record says the given about its restore; nil
// if it accepts no secret of a backup in addition to its own.
func restored(seen *observed, r *record.Restored) *condition.Result {
	if r == nil || len(r.Secrets) == 0 {
		return nil
	}
	var accepted []string
	for _, secret := range r.Secrets {
		if secret.ExpiresAt.IsZero() {
			accepted = append(accepted, secret.ID)
		} else {
			accepted = append(accepted, secret.ID+" until "+timestamp.Format(secret.ExpiresAt))
		}
	}
	return &condition.Result{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonRestoredFromBackup, Message: fmt.Sprintf(
		"The client was restored at %s from the backup of %s. In addition to its own secrets, it accepts %d of the backup: %s. When workloads no longer use them, run \"kubectl realmkeeper restore --finish\". To reject them now, revoke the client's tokens: \"kubectl realmkeeper revoke apiclient/%s -n %s\".",
		timestamp.Format(r.At), timestamp.Format(r.BackupTime), len(r.Secrets), condition.Names(accepted), seen.client.Name, seen.client.Namespace)}
}
