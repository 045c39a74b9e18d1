package realm

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// encryption describes how the signing keys of a realm are stored. Retiring keys don't matter, because
// they have no private part.
type encryption struct {
	mode      sealing.Mode
	plaintext int  // keys in plaintext
	sealed    int  // encrypted keys
	replacing bool // a Pending key has the form of new keys
	waiting   bool // the realm needs a new key from the KMS plugin
	failed    bool // the plugin failed to encrypt it
	// undecrypted are the names of the live token servers that haven't decrypted the Pending key yet.
	undecrypted []string
}

// encryptionOf returns the encryption of a realm with the given keys. undecrypted are the token servers
// that say that they haven't decrypted the Pending key yet. A key in plaintext doesn't wait for them.
func encryptionOf(mode sealing.Mode, keys []signingkey.Key, undecrypted []string) encryption {
	e := encryption{mode: mode}
	for i := range keys {
		key := &keys[i]
		sealed, pending := key.Sealed() != nil, key.State == signingkey.Pending
		switch {
		case sealed:
			e.sealed++
		case key.InPlaintext():
			e.plaintext++
		}
		e.replacing = e.replacing || pending && sealed == (mode == sealing.Encrypt)
		if pending && sealed {
			e.undecrypted = undecrypted
		}
	}
	return e
}

// condition returns the KeysEncrypted condition, or nil without encryption. It contains nothing from
// the plugin, because users who can read the Realm needn't know the KMS.
func (e encryption) condition(realm string) *condition.Result {
	var r condition.Result
	switch {
	case e.mode == sealing.Off && e.sealed == 0:
		return nil
	case e.mode == sealing.Off:
		r = condition.NotReady(v1beta1.ReasonKMSNotConfigured, fmt.Sprintf(
			"%s encrypted, but the instance configuration has no keyEncryption.kms. Restarted token servers cannot use encrypted keys, and no new key is generated. Configure the KMS plugin again.", count(e.sealed)))
	case e.waiting && e.failed:
		r = condition.NotReady(v1beta1.ReasonKMSUnavailable,
			"The realm needs a new signing key, but the KMS plugin failed to encrypt it; retrying. No key is stored until the plugin has encrypted it. See the operator log.")
	case e.waiting:
		r = condition.Progressing("Waiting for the KMS plugin to encrypt a new signing key.")
	case e.mode == sealing.Decrypt && e.sealed == 0:
		r = condition.NotReady(v1beta1.ReasonEncryptionDisabled, "All signing keys are stored in plaintext, because keyEncryption.kms.decrypt is true.")
	case e.mode == sealing.Decrypt:
		r = e.rotate(realm, count(e.sealed)+" still encrypted, although keyEncryption.kms.decrypt is true.")
	case e.plaintext > 0:
		r = e.rotate(realm, count(e.plaintext)+" stored in plaintext.")
	default:
		r = condition.Result{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonKeysEncrypted, Message: "All signing keys are encrypted with the KMS plugin."}
	}
	if len(e.undecrypted) > 0 && e.mode != sealing.Off {
		r.Message += " The next key does not sign until each live token server has decrypted it. These have not: " + condition.Names(e.undecrypted) +
			". See the logs of their containers kms-plugin and token-server."
	}
	return &r
}

// rotate says that a rotation replaces keys that are stored in another form than new ones.
func (e encryption) rotate(realm, problem string) condition.Result {
	if e.replacing {
		return condition.Progressing(problem + " A rotation is replacing the signing key.")
	}
	return condition.NotReady(v1beta1.ReasonRotationRequired, fmt.Sprintf(
		"%s Rotate the signing key with \"kubectl realmkeeper rotate realm/%s\", or those of all realms with \"kubectl realmkeeper rotate --all\".", problem, realm))
}

func count(keys int) string {
	if keys == 1 {
		return "1 signing key is"
	}
	return fmt.Sprintf("%d signing keys are", keys)
}
