package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	portal = "portal"
	// initialAdmin is the ServiceAccount that the chart creates with the portal.
	initialAdmin = "initial-admin"
	// signInLifetime is the lifetime of the printed token. The text that showPortal prints after it
	// says one hour.
	signInLifetime = time.Hour
)

// startPortal starts the portal if it isn't running and waits until it serves. Browsers
// treat http://localhost as secure, so it needs no certificate.
func (d *demo) startPortal(ctx context.Context) error {
	if err := d.createInitialAdmin(ctx); err != nil {
		return err
	}
	if d.isRunning(portal) {
		return nil
	}
	for _, port := range []int{d.ports.Portal, d.ports.PortalOperations} {
		if err := d.ports.reserve(port); err != nil {
			return err
		}
	}
	// Keep the key when the portal restarts, because a new key signs out all users.
	key := d.file("session.key")
	if _, err := os.Stat(key); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(key, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
			return err
		}
	}
	err := d.start(portal, portal, []int{d.ports.Portal, d.ports.PortalOperations},
		"--listen="+address(d.ports.Portal),
		"--operations-listen="+address(d.ports.PortalOperations),
		"--api-server="+d.config.Host,
		"--api-server-ca-file="+filepath.Join(d.runDir(), "ca.crt"),
		"--session-key-file="+key,
		"--initial-admin="+systemNamespace+"/"+initialAdmin,
	)
	if err != nil {
		return err
	}
	return d.await(ctx, "wait for the portal", func(ctx context.Context) error { return ready(ctx, d.ports.PortalOperations) })
}

func (d *demo) portalURL() string { return fmt.Sprintf("http://localhost:%d", d.ports.Portal) }

// createInitialAdmin creates a ServiceAccount with the role that the portal needs, as the
// chart does.
func (d *demo) createInitialAdmin(ctx context.Context) error {
	account := corev1apply.ServiceAccount(initialAdmin, systemNamespace).WithAutomountServiceAccountToken(false)
	binding := rbacv1apply.ClusterRoleBinding("realmkeeper-" + initialAdmin).
		WithRoleRef(rbacv1apply.RoleRef().WithAPIGroup("rbac.authorization.k8s.io").WithKind("ClusterRole").WithName("manage-api-credentials")).
		WithSubjects(rbacv1apply.Subject().WithKind("ServiceAccount").WithNamespace(systemNamespace).WithName(initialAdmin))
	owner := client.FieldOwner(fieldOwner)
	if err := d.cluster.Apply(ctx, account, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply ServiceAccount %s: %w", initialAdmin, err)
	}
	if err := d.cluster.Apply(ctx, binding, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply ClusterRoleBinding realmkeeper-%s: %w", initialAdmin, err)
	}
	return nil
}

// showPortal prints the URL of the portal and how to sign in.
func (d *demo) showPortal(ctx context.Context) error {
	token, err := d.serviceAccountToken(ctx, initialAdmin, signInLifetime)
	if err != nil {
		return err
	}
	d.Say(strings.TrimSuffix(portalSteps, "\n"), d.portalURL(), token, d.short("env"), initialAdmin, systemNamespace)
	return nil
}

const portalSteps = `
To manage clients in a browser, open the portal:

  %[1]s

Sign in with this token, which is valid for one hour:

%[2]s

To get another token, run these commands in bash in this directory:

  source %[3]s
  kubectl create token %[4]s --namespace %[5]s
`
