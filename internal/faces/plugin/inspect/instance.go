package inspect

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/remedy"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

const kindInstance = "Instance"

// addInstance adds the Instance to a status report, or a note that says why it is missing.
func (r *Status) addInstance(ctx context.Context, c *cluster.Cluster) *v1beta1.Instance {
	found, err := c.ReadInstance(ctx)
	switch {
	case err == nil:
		r.Instance = &found.Status
		return found
	case apierrors.IsForbidden(err):
		r.Notes = append(r.Notes, "The state of the token servers is missing, because you have no permission to get the Instance.")
	case apierrors.IsNotFound(err):
		r.Notes = append(r.Notes, "The state of the token servers is missing, because there is no Instance. The operator creates it when it starts.")
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("The state of the token servers is missing: %v.", err))
	}
	return nil
}

// instanceProblems returns the problems that the Instance shows.
func instanceProblems(i *v1beta1.Instance) []problem {
	if i == nil {
		return nil
	}
	var found []problem
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionReady, v1beta1.ConditionCertificatesIssued, v1beta1.ConditionKMSConnected, v1beta1.ConditionMemorySufficient} {
		c := meta.FindStatusCondition(i.Status.Conditions, string(kind))
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		p := problem{
			Warning: kind != v1beta1.ConditionReady || c.Status == metav1.ConditionUnknown, Reason: c.Reason,
			Kind: kindInstance, Objects: []string{i.Name}, Count: 1, Message: c.Message,
		}
		if known, ok := remedy.ForInstance(i, v1beta1.ConditionReason(c.Reason)); ok {
			p.Action, p.Commands = known.Action, known.Commands
		}
		found = append(found, p)
	}
	for _, s := range i.Status.TokenServers {
		if s.State == v1beta1.TokenServerStale {
			found = append(found, problem{
				Warning: true, Reason: "Token server " + s.Name + " is stale", Message: s.Message,
				Action: "Check its Pod, and whether it reaches the API server.", Commands: remedy.ForTokenServer(i, s.Name),
			})
		}
	}
	return found
}

// operatorProblems returns a problem if no operator works. The Instance is then not up to date.
func (r *Status) operatorProblems() []problem {
	if r.restore != nil {
		return nil // It has a problem of its own.
	}
	p := problem{
		Reason: "No operator is working", Action: "Check the operator Deployment and its Pods.",
		Commands: []string{"kubectl describe pods -A -l " + cluster.NameLabel + "=realmkeeper," + cluster.ComponentLabel + "=operator"},
	}
	const effect = " Changes have no effect, and the state of the instance in this report is not up to date."
	switch d := r.Operator; {
	case !r.stopped.IsZero():
		p.Message = "The leader Lease was last renewed " + terminal.Relative(r.stopped, r.now) + "." + effect
	case d != nil && d.Ready == 0 && d.Replicas > 0:
		p.Message = fmt.Sprintf("0 of %d replicas are ready.", d.Replicas) + effect
	default:
		return nil
	}
	return []problem{p}
}

// authorityText describes the managed CA. It is empty if the status has none.
func authorityText(s *v1beta1.InstanceStatus, now time.Time) string {
	ca := s.CertificateAuthority
	if ca == nil {
		return ""
	}
	text := "expires " + terminal.Relative(ca.ExpirationTime.Time, now)
	if ca.Next != nil {
		text += ", the next one signs " + terminal.Relative(ca.Next.ActivationTime.Time, now)
	}
	return text
}

// encryptionText describes the encryption of signing keys.
func encryptionText(s *v1beta1.InstanceStatus) string {
	switch e := s.KeyEncryption; {
	case e == nil:
		return "none"
	case e.Mode == v1beta1.KeyEncryptionDecrypt:
		return "none for new keys, decryption with a KMS plugin"
	case e.KeyID == "":
		return "KMS plugin"
	default:
		return "KMS plugin, key " + e.KeyID
	}
}
