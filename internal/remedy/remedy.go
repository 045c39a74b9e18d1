// Package remedy explains the reasons of the conditions of Realms and ApiClients: the cause, what
// to do about it, and commands that a user can copy. The portal and the kubectl plugin show them.
package remedy

import "github.com/realmkeeper/realmkeeper/api/v1alpha1"

// Remedy explains the reason of a condition.
type Remedy struct {
	// Cause says in one sentence what the reason means. The message of the condition has the
	// details, such as names.
	Cause string
	// Action says what to do. It is empty if there is nothing to do.
	Action string
	// Commands are shell commands for the next steps, in the order in which to run them. They contain
	// the object's name, so users can run them unchanged.
	Commands []string
}

// entry is a Remedy for any object.
type entry struct {
	cause, action string
	commands      func(object) []string
}

// ForClient returns the remedy of a reason in the conditions of an ApiClient. It returns false for a
// reason that this version does not know, such as one of a newer operator.
//
// Remedies that suggest a grant call readRealm. It returns the Realm of the client, or nil if the user
// cannot read it.
func ForClient(c *v1alpha1.ApiClient, readRealm func() *v1alpha1.Realm, reason v1alpha1.ConditionReason) (Remedy, bool) {
	return lookup(reason, object{"apiclient", c.Namespace, c.Name, c.Spec.RealmRef.Name, c, readRealm}, clients, shared)
}

// ForRealm returns the remedy of a reason in the conditions of a Realm. It returns false for a
// reason that this version does not know.
func ForRealm(r *v1alpha1.Realm, reason v1alpha1.ConditionReason) (Remedy, bool) {
	return lookup(reason, object{"realm", "", r.Name, r.Name, nil, nil}, realms(r), shared)
}

func lookup(reason v1alpha1.ConditionReason, o object, tables ...map[v1alpha1.ConditionReason]entry) (Remedy, bool) {
	for _, table := range tables {
		if e, ok := table[reason]; ok {
			return Remedy{Cause: e.cause, Action: e.action, Commands: e.commands(o)}, true
		}
	}
	return Remedy{}, false
}

// shared explains the reasons that Realms and ApiClients share.
var shared = map[v1alpha1.ConditionReason]entry{
	v1alpha1.ReasonAccepted: {
		cause:    "The spec is valid, and everything that it references exists.",
		commands: object.describe,
	},
	v1alpha1.ReasonReady: {
		cause:    "Every live token server has loaded the latest change.",
		commands: object.try,
	},
	v1alpha1.ReasonProgressing: {
		cause:    "The operator is working, or is waiting for a token server to load the latest change.",
		action:   "Wait. If it takes longer than a minute, look for a token server that is stale or not running.",
		commands: object.status,
	},
	v1alpha1.ReasonSuspended: {
		cause:    "spec.suspend is true, so no tokens are issued. Nothing was deleted.",
		action:   "Resume it when it may get tokens again.",
		commands: func(o object) []string { return []string{o.plugin("resume")} },
	},
	v1alpha1.ReasonNoTokenServer: {
		cause:  "No token server is running, so no client can get a token.",
		action: "Check the token server Deployment and its Pods.",
		commands: func(object) []string {
			const selected = " -A -l app.kubernetes.io/name=realmkeeper,app.kubernetes.io/component=token-server"
			return []string{"kubectl get deployments,pods" + selected, "kubectl describe pods" + selected}
		},
	},
	v1alpha1.ReasonRestoredFromBackup: {
		cause:    "The client was restored from a backup and still accepts secrets of the backup.",
		action:   "Reject the secrets of the backup when no workload uses them any longer.",
		commands: func(object) []string { return []string{"kubectl realmkeeper restore --finish"} },
	},
	v1alpha1.ReasonClaimsTooLarge: {
		cause:    "The fixed claims of the realm and of the client together are more than 16, or larger than 2048 bytes.",
		action:   "Remove or shorten claims in spec.claims of the Realm or of the ApiClient.",
		commands: object.compareWithRealm,
	},
}
