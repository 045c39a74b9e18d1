package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// fieldOwner is the field manager for everything that the demo applies.
const fieldOwner = "realmkeeper-demo"

// connect creates a client with administrator permissions.
func (d *demo) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", d.adminKubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1 // no rate limit, because nothing else uses this API server
	d.config = config
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return err
	}
	d.cluster, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// install applies the manifests that an administrator applies once: the namespaces, the CRDs, the
// permissions, and the admission policies. It omits the operator's Deployment, because the demo runs
// the operator as a process, and the token servers' policy, because their tokens are not bound to
// Pods.
func (d *demo) install(ctx context.Context) error {
	d.Step("Applying the namespaces in config/manager, config/crd, config/rbac and the operator's policies ...")
	for _, path := range []string{
		"config/manager/namespace.yaml", "config/manager/records_namespace.yaml", "config/crd", "config/rbac",
		"config/admission/operator_secrets_policy.yaml", "config/admission/operator_token_service_policy.yaml",
		"config/admission/realm_protection_policy.yaml",
	} {
		if _, err := d.apply(ctx, path); err != nil {
			return err
		}
	}
	return d.await(ctx, "wait until the CRDs are served", func(ctx context.Context) error {
		return errors.Join(d.cluster.List(ctx, &v1beta1.RealmList{}), d.cluster.List(ctx, &v1beta1.ApiClientList{}))
	})
}

// apply applies the objects in a manifest or kustomization of the repository and returns
// them.
func (d *demo) apply(ctx context.Context, path string) ([]*unstructured.Unstructured, error) {
	objects, err := readManifests(filepath.Join(d.root, path))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		err := d.cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
			client.FieldOwner(fieldOwner), client.ForceOwnership)
		if err != nil {
			return nil, fmt.Errorf("apply %s: %w", describe(object), err)
		}
	}
	return objects, nil
}

// readManifests reads the objects in a YAML file, or in the resources of a kustomization,
// in order. It supports no other field of a kustomization.
func readManifests(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return readManifest(path)
	}
	content, err := os.ReadFile(filepath.Join(path, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := sigsyaml.Unmarshal(content, &kustomization); err != nil {
		return nil, fmt.Errorf("read the kustomization in %s: %w", path, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range kustomization.Resources {
		more, err := readManifests(filepath.Join(path, resource))
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

func readManifest(path string) ([]*unstructured.Unstructured, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4<<10); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if len(object.Object) > 0 { // a document can consist of comments only
			objects = append(objects, object)
		}
	}
}

// describe returns the kind and name of an object, such as "ApiClient acme-apps/billing".
func describe(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/")
}

// serviceAccountKubeconfig writes a kubeconfig with the permissions of a ServiceAccount in
// the system namespace, so that the processes have the same permissions as in a cluster.
func (d *demo) serviceAccountKubeconfig(ctx context.Context, name string) (path string, err error) {
	token, err := d.serviceAccountToken(ctx, name, 365*24*time.Hour)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(d.adminKubeconfig())
	if err != nil {
		return "", err
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	}
	path = filepath.Join(d.runDir(), name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// serviceAccountToken returns a token for a ServiceAccount in the system namespace.
func (d *demo) serviceAccountToken(ctx context.Context, name string, lifetime time.Duration) (string, error) {
	seconds := int64(lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name}}
	err := d.await(ctx, "get a token for ServiceAccount "+name, func(ctx context.Context) error {
		return d.cluster.SubResource("token").Create(ctx, account, request)
	})
	return request.Status.Token, err
}
