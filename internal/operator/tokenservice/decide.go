package tokenservice

import (
	"fmt"
	"io"
	"time"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

// decision is what the token service shall be.
type decision struct {
	// authority and serving are nil where the certificate comes from elsewhere, or is
	// good as it is.
	authority *servingcert.Pair
	serving   *servingcert.Pair
	// renewAt is when to look at the certificate again; zero: never.
	renewAt time.Time

	serviceAccount *corev1ac.ServiceAccountApplyConfiguration
	role           *rbacv1ac.RoleApplyConfiguration
	roleBinding    *rbacv1ac.RoleBindingApplyConfiguration
	service        *corev1ac.ServiceApplyConfiguration
	networkPolicy  *networkingv1ac.NetworkPolicyApplyConfiguration
	// disruptionBudget is nil with a single replica, whose eviction it would forbid.
	disruptionBudget *policyv1ac.PodDisruptionBudgetApplyConfiguration
	deployment       *appsv1ac.DeploymentApplyConfiguration
}

// decide is a pure function of what was read, the time and the random source.
//
// Errors are about the certificates, and leave the rest of the decision good: servingcert.ErrInvalidPair for
// a managed CA that can't be used, which stays as it is since consumers trust it; those of the random source.
func decide(seen observed, instance *config.Instance, image string, now time.Time, random io.Reader) (decision, error) {
	d := decision{
		serviceAccount: serviceAccount(instance),
		role:           role(instance),
		roleBinding:    roleBinding(instance),
		service:        service(instance),
		networkPolicy:  networkPolicy(instance),
		deployment:     deployment(seen.deployment, instance, image),
	}
	if replicas(seen.deployment, instance) > 1 {
		d.disruptionBudget = disruptionBudget(instance)
	}
	d.belongTo(seen.operator)
	if instance.TLS.Managed == nil {
		return d, nil
	}
	// Without a certificate the rest is still decided: a CA that can't be read is no reason
	// for anything else to drift.
	err := decideCertificates(&d, seen, instance, now, random)
	return d, err
}

func decideCertificates(d *decision, seen observed, instance *config.Instance, now time.Time, random io.Reader) error {
	var authority servingcert.Pair
	if seen.authority != nil {
		authority = servingcert.FromSecret(seen.authority)
		if err := authority.Check(); err != nil {
			return fmt.Errorf("reading the managed CA in Secret %s; restore it, or delete it to have a new one made: %w", servingcert.AuthoritySecret, err)
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
		return fmt.Errorf("%w: what the CA in Secret %s signs isn't valid now; look at its dates and this machine's clock", servingcert.ErrInvalidPair, servingcert.AuthoritySecret)
	}
	d.serving = &serving
	return nil
}
