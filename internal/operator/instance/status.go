package instance

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// maxReplicaFailure limits the message of an admission plugin or webhook, in bytes.
const maxReplicaFailure = 4096

// recheck is when the status is computed again while a CA is unusable, which also depends on the time.
const recheck = time.Minute

const (
	// pluginInterval is the time between two checks of the KMS plugin. Token servers use the same.
	pluginInterval = 30 * time.Second
	// pluginRetry is the time between two checks of a plugin that doesn't respond.
	pluginRetry = 10 * time.Second
)

// status returns the new status of the Instance, and when it changes although nothing else does; zero if it
// doesn't. It is a pure function.
func status(seen *observed, instance *config.Instance, version string, now time.Time) (s v1beta1.InstanceStatus, next time.Time) {
	var servers []server
	live := int32(0)
	for i := range seen.servers {
		described := describe(&seen.servers[i], now)
		servers = append(servers, described)
		next = timestamp.Earliest(next, described.next)
		if described.live() {
			live++
		}
	}
	s = v1beta1.InstanceStatus{
		ObservedGeneration: seen.instance.Generation,
		Version:            version,
		ServiceURL:         instance.ServiceURL(),
		SystemNamespace:    instance.SystemNamespace,
		RecordsNamespace:   instance.RecordsNamespace,
		LiveTokenServers:   &live,
		TokenServers:       listed(servers),
		KeyEncryption:      keyEncryption(seen),
	}
	conditions := condition.NewSet(seen.instance.Status.Conditions, seen.instance.Generation, metav1.NewTime(now))
	if unknown := unknownContainers(seen.deployment, instance); len(unknown) > 0 {
		conditions.Summarize(condition.NotReady(v1beta1.ReasonUnknownContainer, fmt.Sprintf(
			"The operator has not added these containers to the Deployment %s/%s: %s. They can read all signing keys. If you do not know them, an attacker has the permissions of the operator. See \"Recover\" in docs/security.md.",
			instance.SystemNamespace, config.TokenServiceName, names(unknown))))
	} else {
		conditions.Summarize(ready(servers, seen.deployment))
	}
	if instance.TLS.Managed != nil {
		var issued condition.Result
		if s.CertificateAuthority, issued = certificateAuthority(seen, authority.PolicyOf(instance), now); issued.Status == metav1.ConditionFalse {
			next = timestamp.Earliest(next, now.Add(recheck))
		}
		conditions.Put(v1beta1.ConditionCertificatesIssued, issued)
	}
	if seen.mode == sealing.Encrypt {
		conditions.Put(v1beta1.ConditionKMSConnected, connected(seen.keyID))
		interval := pluginInterval
		if seen.keyID == "" {
			interval = pluginRetry
		}
		next = timestamp.Earliest(next, now.Add(interval))
	}
	s.Conditions = conditions.Conditions()
	return s, next
}

// unknownContainers returns the names of the containers that the operator doesn't add to the Pods of the token
// servers. Server-side apply keeps those of other field managers.
func unknownContainers(deployment *appsv1.Deployment, instance *config.Instance) (unknown []string) {
	if deployment == nil {
		return nil
	}
	pod := &deployment.Spec.Template.Spec
	for i := range pod.Containers {
		if name := pod.Containers[i].Name; name != config.TokenServerContainer {
			unknown = append(unknown, name)
		}
	}
	for i := range pod.InitContainers {
		if name := pod.InitContainers[i].Name; name != config.KMSName || instance.KeyEncryption.KMS == nil {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// replicaFailure returns why Kubernetes can't create Pods of the token servers, for example because of a quota.
// It is empty if there is no such failure. Kubernetes keeps the first message while the failure lasts, so
// this doesn't change with each attempt.
func replicaFailure(deployment *appsv1.Deployment) string {
	if deployment == nil {
		return ""
	}
	for i := range deployment.Status.Conditions {
		if c := &deployment.Status.Conditions[i]; c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return untrusted.Printable(c.Message[:min(len(c.Message), maxReplicaFailure)])
		}
	}
	return ""
}

// ready returns the result for the Ready condition: that of the worst live token server.
func ready(servers []server, deployment *appsv1.Deployment) condition.Result {
	behind, live := map[v1beta1.ConditionReason][]string{}, 0
	for _, s := range servers {
		if s.live() {
			live++
			behind[s.reason] = append(behind[s.reason], s.Name)
		}
	}
	switch {
	case live == 0:
		result := acknowledgement.NoServer.Result()
		if failure := replicaFailure(deployment); failure != "" {
			result.Message = fmt.Sprintf("No live token servers. Kubernetes cannot create the Pods of the Deployment %s/%s: %s", deployment.Namespace, deployment.Name, failure)
		}
		return result
	case len(behind[v1beta1.ReasonRecordsNotLoaded]) > 0:
		return condition.NotReady(v1beta1.ReasonRecordsNotLoaded, "These token servers cannot read or enforce some records: "+names(behind[v1beta1.ReasonRecordsNotLoaded])+".")
	case len(behind[v1beta1.ReasonKMSUnavailable]) > 0:
		return condition.NotReady(v1beta1.ReasonKMSUnavailable, fmt.Sprintf(
			"These token servers have not decrypted all active signing keys: %s. See the logs of their containers kms-plugin and token-server.", names(behind[v1beta1.ReasonKMSUnavailable])))
	case len(behind[v1beta1.ReasonProgressing]) > 0:
		return condition.Progressing("Waiting for these token servers to load the latest records: " + names(behind[v1beta1.ReasonProgressing]) + ".")
	}
	return condition.Ready("Every live token server serves the latest records.")
}

// certificateAuthority describes the managed CA. The status is nil if it can't be used.
func certificateAuthority(seen *observed, policy authority.Policy, now time.Time) (*v1beta1.CertificateAuthorityStatus, condition.Result) {
	err := seen.unusable
	if err == nil && seen.ca == nil {
		return nil, condition.Progressing("The operator is generating the CA.")
	}
	if err == nil {
		err = seen.ca.Check(now, policy)
	}
	if err != nil {
		return nil, condition.NotReady(v1beta1.ReasonCAUnusable, "The token servers keep their last certificate: "+err.Error()+".")
	}
	s := &v1beta1.CertificateAuthorityStatus{ExpirationTime: metav1.NewTime(seen.ca.Current.Leaf.NotAfter)}
	if next := seen.ca.Next; next != nil {
		s.Next = &v1beta1.NextCertificateAuthorityStatus{
			ActivationTime: metav1.NewTime(seen.ca.SwitchAt(policy)), ExpirationTime: metav1.NewTime(next.Leaf.NotAfter),
		}
	}
	return s, condition.Result{
		Status: metav1.ConditionTrue, Reason: v1beta1.ReasonCertificatesIssued, Message: "The managed CA signs the certificate of the token servers.",
	}
}

// keyEncryption describes the KMS plugin. While it doesn't respond, its last key ID stays.
func keyEncryption(seen *observed) *v1beta1.KeyEncryptionStatus {
	switch seen.mode {
	case sealing.Encrypt:
		s := &v1beta1.KeyEncryptionStatus{Mode: v1beta1.KeyEncryptionEncrypt, KeyID: seen.keyID}
		if before := seen.instance.Status.KeyEncryption; before != nil && s.KeyID == "" {
			s.KeyID = before.KeyID
		}
		return s
	case sealing.Decrypt:
		return &v1beta1.KeyEncryptionStatus{Mode: v1beta1.KeyEncryptionDecrypt}
	}
	return nil
}

// connected returns the result for the KMSConnected condition. Like the conditions of Realms, it contains
// nothing that the plugin said.
func connected(keyID string) condition.Result {
	if keyID == "" {
		return condition.NotReady(v1beta1.ReasonKMSUnavailable,
			"The KMS plugin of the operator does not respond. No new signing key is stored until it does. See the operator log.")
	}
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonKMSConnected, Message: "The KMS plugin of the operator responds."}
}
