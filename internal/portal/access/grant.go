package access

import (
	"strings"
)

const serviceAccountPrefix = "system:serviceaccount:"

// ServiceAccount returns namespace and name of the service account that the person is, or
// false for anyone else.
func (p Person) ServiceAccount() (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(p.Name, serviceAccountPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// GrantCommand returns the command by which an administrator lets the person manage the
// clients of a namespace, or of all of them when that is empty.
func (p Person) GrantCommand(namespace string) string {
	subject := "--user=" + quote(p.Name)
	if in, name, ok := p.ServiceAccount(); ok {
		subject = "--serviceaccount=" + quote(in+":"+name)
	}
	if namespace == "" {
		return "kubectl create clusterrolebinding NAME --clusterrole=" + Role + " " + subject
	}
	return "kubectl create rolebinding NAME --namespace=" + quote(namespace) + " --clusterrole=" + Role + " " + subject
}

// quote writes an argument for a POSIX shell. A name comes from an identity provider, where
// its owner may have chosen it.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:@%_+=/-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
