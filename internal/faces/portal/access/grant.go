package access

import (
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

const serviceAccountPrefix = "system:serviceaccount:"

// ServiceAccount returns the namespace and name of the service account. It returns false if the
// user isn't a service account.
func (u User) ServiceAccount() (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(u.Name, serviceAccountPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// ShortName returns the user's display name. For a service account, it omits the namespace.
func (u User) ShortName() string {
	if _, name, ok := u.ServiceAccount(); ok && name != "" {
		return name
	}
	return u.Name
}

// GrantCommand returns the command that grants the role to the user in the given namespace, or in
// the whole cluster if namespace is empty.
func (u User) GrantCommand(namespace string) string {
	subject := "--user=" + untrusted.Quote(u.Name)
	if in, name, ok := u.ServiceAccount(); ok {
		subject = "--serviceaccount=" + untrusted.Quote(in+":"+name)
	}
	if namespace == "" {
		return "kubectl create clusterrolebinding NAME --clusterrole=" + Role + " " + subject
	}
	return "kubectl create rolebinding NAME --namespace=" + untrusted.Quote(namespace) + " --clusterrole=" + Role + " " + subject
}
