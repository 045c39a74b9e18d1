//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

const (
	// systemNamespace is the namespace in which Realmkeeper is installed.
	systemNamespace = "realmkeeper-system"
	// recordsNamespace is the namespace of the records.
	recordsNamespace = systemNamespace + "-records"
	domain           = "e2e.example.com"
	// workloadImage is the image of test/e2e/workload.
	workloadImage = "realmkeeper-workload:e2e"
	// tokenAgentImage is the image of cmd/token-agent.
	tokenAgentImage = "realmkeeper-token-agent:e2e"
)

// Image versions built by `make e2e`.
const (
	previousVersion = "0.0.1-e2e" // from the source in E2E_PREVIOUS
	currentVersion  = "0.0.2-e2e"
)

// cluster is a client for the API server in KUBECONFIG.
var cluster client.Client

var errInstalled = errors.New("the cluster contains Realms or ApiClients, or listing them failed; use a cluster without them, because these tests delete all of them")

func TestMain(m *testing.M) {
	if err := connect(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	if reusable {
		if err := removeAll(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func connect() error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("KUBECONFIG must be set to the cluster to test on; run make e2e: %w", err)
	}
	config.QPS = -1 // no rate limit
	if cluster, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	// At the end, the tests delete all Realms and ApiClients.
	err = cluster.List(context.Background(), &v1beta1.RealmList{})
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return errors.Join(errInstalled, err)
	}
	return nil
}
