package availability_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// logging.level sets the log level of the operator and of the token servers that it runs.
func TestLogLevelIsConfigurable(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	awaitDebugFlag := func(want bool) {
		t.Helper()
		install.Eventually(t, fmt.Sprintf("the Deployment to have --debug: %t", want), func() error {
			deployment := &appsv1.Deployment{}
			if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.Namespace, Name: config.TokenServiceName}, deployment); err != nil {
				return err
			}
			if args := deployment.Spec.Template.Spec.Containers[0].Args; slices.Contains(args, "--debug") != want {
				return fmt.Errorf("the arguments are %v", args)
			}
			return nil
		})
	}
	debugLogged := func() bool { return strings.Contains(string(inst.OperatorLog(t)), `"level":"debug"`) }

	awaitDebugFlag(false)
	if debugLogged() {
		t.Error("the operator logs at debug level by default")
	}

	inst.StopOperator(t)
	inst.Configure(t, install.Settings{LogLevel: "debug"})
	inst.StartOperator(t, "")
	awaitDebugFlag(true)
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true }) // an Event follows
	install.Eventually(t, "the operator to log its Events at debug level", func() error {
		if !debugLogged() {
			return errors.New("not logged")
		}
		return nil
	})

	inst.StopOperator(t)
	inst.Configure(t, install.Settings{})
	inst.StartOperator(t, "")
	awaitDebugFlag(false)
}
