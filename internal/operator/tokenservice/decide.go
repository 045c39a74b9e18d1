package tokenservice

import (
	"fmt"
	"io"
	"time"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

// decision is the desired state of the token service.
type decision struct {
	// authority and serving are nil if they don't change or if the instance does not manage its
	// certificate.
	authority *servingcert.Pair
	serving   *servingcert.Pair
	// renewAt is the time of the next certificate renewal. Zero means never.
	renewAt time.Time

	service       *corev1ac.ServiceApplyConfiguration
	networkPolicy *networkingv1ac.NetworkPolicyApplyConfiguration
	// disruptionBudget is nil for a single replica because it would block the eviction of its Pod.
	disruptionBudget *policyv1ac.PodDisruptionBudgetApplyConfiguration
	deployment       *appsv1ac.DeploymentApplyConfiguration
}

// decide returns the desired state for the observed state. It is a pure function.
//
// Errors concern only the certificates; the rest of the decision is still valid. The error wraps
// servingcert.ErrInvalidPair if the managed CA is not usable. An unusable CA is never replaced,
// because workloads trust it. Other errors come from random.
func decide(seen observed, instance *config.Instance, image string, now time.Time, random io.Reader) (decision, error) {
	d := decision{
		service:       service(instance),
		networkPolicy: networkPolicy(instance),
		deployment:    deployment(seen.deployment, instance, image),
	}
	if replicas(seen.deployment, instance) > 1 {
		d.disruptionBudget = disruptionBudget(instance)
	}
	d.setOwner(seen.operator)
	if instance.TLS.Managed == nil {
		return d, nil
	}
	// Return the rest of the decision even if the certificates fail. Other objects must not drift
	// because the CA is unreadable.
	err := decideCertificates(&d, seen, instance, now, random)
	return d, err
}

func decideCertificates(d *decision, seen observed, instance *config.Instance, now time.Time, random io.Reader) error {
	var authority servingcert.Pair
	if seen.authority != nil {
		authority = servingcert.FromSecret(seen.authority)
		if err := authority.Check(); err != nil {
			return fmt.Errorf("reading the managed CA in Secret %s (restore it, or delete it to generate a new CA): %w", servingcert.AuthoritySecret, err)
		}
	} else {
		var err error
		if authority, err = servingcert.NewAuthority(now, random); err != nil {
			return err
		}
		d.authority = &authority
	}

	hosts := []string{instance.Host(), instance.ServiceHost(), instance.ServiceHost() + ".cluster.local", config.TokenServiceName}
	if seen.serving != nil {
		if at := authority.RenewAt(servingcert.FromSecret(seen.serving), hosts, now); at.After(now) {
			d.renewAt = at
			return nil
		}
	}
	serving, err := authority.Issue(hosts, now, random)
	if err != nil {
		return err
	}
	if d.renewAt = authority.RenewAt(serving, hosts, now); !d.renewAt.After(now) {
		return fmt.Errorf("%w: the CA in Secret %s issued a certificate that is not valid now; check the validity of the CA and the clock of the node", servingcert.ErrInvalidPair, servingcert.AuthoritySecret)
	}
	d.serving = &serving
	return nil
}
