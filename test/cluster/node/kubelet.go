package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const kubelet = "kubelet"

// kubeletConfig allows both versions of control groups. The eviction thresholds are low, because
// other programs also use the disk and memory of this machine. Pods see changes of their Secrets and
// ConfigMaps within syncFrequency, which is a minute by default.
func kubeletConfig() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[2]s}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://%[3]s
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
syncFrequency: 2s
clusterDNS: [%[1]s]
clusterDomain: %[4]s
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 1Mi
  nodefs.available: 1%%
  nodefs.inodesFree: 1%%
  imagefs.available: 1%%
`, Address, runFile("ca.crt"), containerdSocket, domain)
}

// kernelSettings are settings that a kubelet changes to these values for the whole machine.
var kernelSettings = map[string]string{
	"kernel/keys/root_maxbytes": "25000000",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
}

// hideKernelSettings mounts files over the settings. They contain the values that the kubelet
// expects, so the settings of this machine never change, even if the node is killed.
func hideKernelSettings(ctx context.Context) error {
	for setting := range kernelSettings {
		if err := run(ctx, "mount", "--bind", configFile(kernelFile(setting)), "/proc/sys/"+setting); err != nil {
			return err
		}
	}
	return nil
}

// startKubelet starts the kubelet and returns when the node is Ready and the kubelet knows its Pods.
func (n *node) startKubelet(ctx context.Context) error {
	return n.start(ctx, kubelet, binary(kubelet), []string{
		"--config=" + configFile(kubeletFile),
		"--kubeconfig=" + kubeconfig(kubelet),
		"--hostname-override=" + Name,
		fmt.Sprintf("--node-ip=%s", Address),
	}, func(ctx context.Context) error {
		if err := n.nodeReady(ctx); err != nil {
			return err
		}
		return n.podsKnown(ctx)
	})
}

func (n *node) nodeReady(ctx context.Context) error {
	node, err := n.clients.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		} else if condition.Type == corev1.NodeReady {
			return fmt.Errorf("the node is not Ready: %s", condition.Message)
		}
	}
	return errors.New("the node has no status yet")
}

// podsKnown returns an error unless the kubelet knows all Pods of the node. Until then, kubectl exec
// fails.
func (n *node) podsKnown(ctx context.Context) error {
	scheduled, err := n.clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + Name})
	if err != nil {
		return err
	}
	content, err := n.clients.CoreV1().RESTClient().Get().Resource("nodes").Name(Name).SubResource("proxy", "pods").DoRaw(ctx)
	if err != nil {
		return err
	}
	known := &corev1.PodList{}
	if err := json.Unmarshal(content, known); err != nil {
		return err
	}
	for i := range scheduled.Items {
		uid := scheduled.Items[i].UID
		if !slices.ContainsFunc(known.Items, func(p corev1.Pod) bool { return p.UID == uid }) {
			return fmt.Errorf("the kubelet doesn't know the pod %s yet", scheduled.Items[i].Name)
		}
	}
	return nil
}
