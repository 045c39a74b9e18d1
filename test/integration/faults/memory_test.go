package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An operator whose memory limit is too low says so in its log and on the Instance, and an operator with enough
// memory removes that.
func TestMemoryLimitIsTooLow(t *testing.T) {
	inst := scenario.Running(t, env.Start(t))
	condition := func() *metav1.Condition {
		instance := &v1beta1.Instance{}
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Name: v1beta1.InstanceName}, instance); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(instance.Status.Conditions, string(v1beta1.ConditionMemorySufficient))
	}
	inst.StopOperator(t)
	inst.OperatorEnv = []string{"GOMEMLIMIT=6MiB"}
	inst.StartOperator(t, "")
	install.Eventually(t, "the Instance to report the limit", func() error {
		if c := condition(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != string(v1beta1.ReasonMemoryLimitTooLow) {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
	if log := inst.OperatorLog(t); !bytes.Contains(log, []byte("raise operator.resources.limits.memory")) {
		t.Errorf("the operator doesn't log what to do:\n%s", log)
	}

	inst.StopOperator(t)
	inst.OperatorEnv = nil
	inst.StartOperator(t, "")
	install.Eventually(t, "the Instance not to report the limit any longer", func() error {
		if condition() != nil {
			return errors.New("it still does")
		}
		return nil
	})
}
