package realm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// encryption describes how the signing keys of a realm are stored.
type encryption struct {
	mode        sealing.Mode
	plaintext   int  // number of keys in plaintext
	sealed      int  // number of encrypted keys
	generating  bool // the realm needs a new key from the KMS plugin
	adopting    bool // restored keys wait for the KMS plugin
	unavailable bool // the plugin failed to do what the realm needs
	// discard is the command that gives up the restored keys that wait.
	discard string
	// undecrypted are the names of the token servers that haven't decrypted the next key yet.
	undecrypted []string
}

// encryptionOf returns the encryption of a realm with the given keys in its record. undecrypted are the
// token servers that say that they haven't decrypted the next key yet. A key in plaintext doesn't wait
// for them.
func encryptionOf(view sealing.View, keys []signingkey.Key, undecrypted []string) encryption {
	e := encryption{mode: view.Mode, unavailable: view.Unavailable}
	if slices.ContainsFunc(keys, func(k signingkey.Key) bool { return k.State == signingkey.Pending && k.Sealed() != nil }) {
		e.undecrypted = undecrypted
	}
	return e
}

// of returns the encryption with the numbers of the given keys.
func (e encryption) of(keys []signingkey.Key) encryption {
	e.plaintext, e.sealed = 0, 0
	for i := range keys {
		if keys[i].Sealed() == nil {
			e.plaintext++
		} else {
			e.sealed++
		}
	}
	return e
}

// first reports whether the realm waits for its first key.
func (e encryption) first() bool {
	return (e.generating || e.adopting) && e.plaintext+e.sealed == 0
}

// merge adds the keys of the restore record to those of the realm, unless they have to wait for the KMS
// plugin. Keys that the realm doesn't need are not converted, because the KMS may be unable to decrypt an
// old one.
func (d *decision) merge(seen *observed, keys []signingkey.Key, now time.Time) []signingkey.Key {
	all := seen.restored.Realm.Keys
	needed := slices.DeleteFunc(slices.Clone(all), func(k signingkey.Key) bool { return signingkey.Unneeded(&k, keys, d.policy, now) })
	restored, ready := seen.sealing.Adopt(string(seen.realm.UID), needed, &d.request)
	if !ready {
		d.encryption.adopting, d.encryption.discard = true, record.DeleteCommand(seen.restore)
		return keys
	}
	d.adopts, d.restored = true, restoration(seen, d.restored, now)
	keys, d.restored.OmittedKeys = signingkey.Merge(keys, restored, signingkey.LongestLifetime(all, d.lifetime))
	return keys
}

// condition returns the KeysEncrypted condition, or nil without encryption. It contains nothing from
// the plugin, because users who can read the Realm needn't know the KMS.
func (e encryption) condition() *condition.Result {
	var r condition.Result
	switch {
	case e.mode == sealing.Off && !e.adopting && e.sealed == 0:
		return nil
	case e.mode == sealing.Off:
		r = e.notConfigured()
	case e.adopting && e.unavailable:
		r = condition.NotReady(v1alpha1.ReasonKMSUnavailable, "The KMS plugin failed to encrypt or decrypt the signing keys of the backup; retrying. See the operator log. "+e.giveUp())
	case e.adopting:
		r = condition.Progressing("Waiting for the KMS plugin to encrypt or decrypt the signing keys of the backup.")
	case e.mode == sealing.Decrypt:
		r = e.decrypting()
	default:
		r = e.encrypting()
	}
	return &r
}

// giveUp says what to do about restored keys that the KMS can no longer decrypt.
func (e encryption) giveUp() string {
	return fmt.Sprintf("If the KMS can no longer decrypt them, give them up with %q. The realm then uses its own keys, and tokens of the backup fail verification.", e.discard)
}

func (e encryption) notConfigured() condition.Result {
	if e.adopting {
		return condition.NotReady(v1alpha1.ReasonKMSNotConfigured,
			"The signing keys of the backup are encrypted, but the instance configuration has no keyEncryption.kms, so the realm cannot be restored. Configure the KMS plugin that encrypted them. "+e.giveUp())
	}
	return condition.NotReady(v1alpha1.ReasonKMSNotConfigured, fmt.Sprintf(
		"%s encrypted, but the instance configuration has no keyEncryption.kms. Restarted token servers cannot use encrypted keys, and no new key is generated. Configure the KMS plugin again.", count(e.sealed)))
}

func (e encryption) decrypting() condition.Result {
	switch {
	case e.sealed > 0 && e.unavailable:
		return condition.NotReady(v1alpha1.ReasonKMSUnavailable, fmt.Sprintf(
			"The KMS plugin failed to decrypt signing keys; retrying. %s still encrypted. See the operator log.", count(e.sealed)))
	case e.sealed > 0:
		return condition.Progressing("Decrypting signing keys, because keyEncryption.kms.decrypt is true.")
	}
	return condition.NotReady(v1alpha1.ReasonEncryptionDisabled, "All signing keys are stored in plaintext, because keyEncryption.kms.decrypt is true.")
}

func (e encryption) encrypting() condition.Result {
	switch {
	case e.plaintext > 0 && e.unavailable:
		return condition.NotReady(v1alpha1.ReasonKMSUnavailable, fmt.Sprintf(
			"The KMS plugin failed to encrypt signing keys; retrying. %s not encrypted yet and still in use. See the operator log.", count(e.plaintext)))
	case e.plaintext > 0:
		return condition.Progressing("Encrypting signing keys.")
	case e.generating && e.unavailable:
		return condition.NotReady(v1alpha1.ReasonKMSUnavailable,
			"The realm needs a new signing key, but the KMS plugin failed; retrying. No key is generated until the plugin can encrypt it. See the operator log.")
	case e.plaintext+e.sealed == 0:
		return condition.Progressing("Generating the first signing key.")
	case len(e.undecrypted) > 0:
		return condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonKeysEncrypted, Message: "All signing keys are encrypted with the KMS plugin. " +
			"The next key does not sign until each live token server has decrypted it. These have not: " + names(e.undecrypted) + ". See the logs of their containers kms-plugin and token-server."}
	}
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonKeysEncrypted, Message: "All signing keys are encrypted with the KMS plugin."}
}

// names joins the first names.
func names(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s, and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

func count(keys int) string {
	if keys == 1 {
		return "1 signing key is"
	}
	return fmt.Sprintf("%d signing keys are", keys)
}
