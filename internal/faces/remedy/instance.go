package remedy

import "github.com/realmkeeper/realmkeeper/api/v1beta1"

// instances contains the commands for the reasons of the Instance.
func instances(i *v1beta1.Instance) map[v1beta1.ConditionReason]commands {
	describe := object.describe
	pods := func(object) []string { return []string{"kubectl describe pods -A -l " + tokenServers} }
	return map[v1beta1.ConditionReason]commands{
		v1beta1.ReasonReady:       describe,
		v1beta1.ReasonProgressing: pods,
		v1beta1.ReasonUnknownContainer: func(object) []string {
			return []string{command("kubectl", "get", "deployment", "realmkeeper-token-server", "-n", i.Status.SystemNamespace, "-o", "yaml", "--show-managed-fields")}
		},
		v1beta1.ReasonRecordsNotLoaded: func(object) []string {
			return []string{"kubectl get realms", "kubectl get apiclients -A", "kubectl get pods -A -l " + tokenServers}
		},
		v1beta1.ReasonCertificatesIssued: describe,
		v1beta1.ReasonCAUnusable: func(object) []string {
			return []string{command("kubectl", "describe", "secret", "realmkeeper-ca", "-n", i.Status.SystemNamespace)}
		},
		v1beta1.ReasonKMSConnected: describe,
		v1beta1.ReasonMemoryLimitTooLow: func(object) []string {
			return []string{"kubectl top pods -A -l app.kubernetes.io/name=realmkeeper"}
		},
		v1beta1.ReasonKMSUnavailable: func(object) []string {
			return []string{"kubectl describe pods -A -l app.kubernetes.io/name=realmkeeper"}
		},
	}
}

// ForTokenServer returns the remedy for a token server that is not Current: the state of its Pod shows why.
func ForTokenServer(i *v1beta1.Instance, server string) []string {
	return []string{command("kubectl", "describe", "pod", server, "-n", i.Status.SystemNamespace)}
}
