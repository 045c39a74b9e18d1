// Package remedy adds commands that a user can copy to the explanations of the reasons of conditions, whose
// text is in api/v1beta1/reasons.go. The portal and the kubectl plugin show them.
package remedy

import "github.com/realmkeeper/realmkeeper/api/v1beta1"

// Remedy explains the reason of a condition.
type Remedy struct {
	v1beta1.Explanation

	// Commands are shell commands for the next steps, in the order in which to run them. They contain
	// the object's name, so users can run them unchanged.
	Commands []string
}

// commands returns the commands of a Remedy.
type commands func(object) []string

// ForClient returns the remedy of a reason in the conditions of an ApiClient. It returns false for a
// reason that this version does not know, such as one of a newer operator.
//
// Remedies that suggest a grant call readRealm. It returns the Realm of the client, or nil if the user
// cannot read it.
func ForClient(c *v1beta1.ApiClient, readRealm func() *v1beta1.Realm, reason v1beta1.ConditionReason) (Remedy, bool) {
	return lookup(reason, object{"apiclient", c.Namespace, c.Name, c.Spec.RealmRef.Name, c, readRealm}, clients, shared)
}

// ForRealm returns the remedy of a reason in the conditions of a Realm. It returns false for a
// reason that this version does not know.
func ForRealm(r *v1beta1.Realm, reason v1beta1.ConditionReason) (Remedy, bool) {
	return lookup(reason, object{"realm", "", r.Name, r.Name, nil, nil}, realms(r), shared)
}

// ForInstance returns the remedy of a reason in the conditions of the Instance. It returns false for a
// reason that this version does not know.
func ForInstance(i *v1beta1.Instance, reason v1beta1.ConditionReason) (Remedy, bool) {
	return lookup(reason, object{"instance", "", i.Name, "", nil, nil}, instances(i), shared)
}

func lookup(reason v1beta1.ConditionReason, o object, tables ...map[v1beta1.ConditionReason]commands) (Remedy, bool) {
	explanation, known := reason.Explain()
	for _, table := range tables {
		if c, ok := table[reason]; ok && known {
			return Remedy{Explanation: explanation, Commands: c(o)}, true
		}
	}
	return Remedy{}, false
}

// tokenServers selects the Deployment and the Pods of the token servers.
const tokenServers = "app.kubernetes.io/name=realmkeeper,app.kubernetes.io/component=token-server"

// shared contains the commands for the reasons that several kinds share.
var shared = map[v1beta1.ConditionReason]commands{
	v1beta1.ReasonAccepted:    object.describe,
	v1beta1.ReasonReady:       object.try,
	v1beta1.ReasonProgressing: object.status,
	v1beta1.ReasonSuspended:   func(o object) []string { return []string{o.plugin("resume")} },
	v1beta1.ReasonNoTokenServer: func(object) []string {
		return []string{"kubectl get deployments,pods -A -l " + tokenServers, "kubectl describe replicasets,pods -A -l " + tokenServers}
	},
	v1beta1.ReasonRestoredFromBackup: func(object) []string { return []string{"kubectl realmkeeper restore --finish"} },
	v1beta1.ReasonClaimsTooLarge:     object.compareWithRealm,
}
