package remedy

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// object is the object that has a condition.
type object struct {
	kind, namespace, name string
	realm                 string
	client                *v1alpha1.ApiClient // nil for a Realm
}

// kubectl returns a kubectl command for the object.
func (o object) kubectl(verb string, args ...string) string {
	words := []string{"kubectl", verb, o.kind, o.name}
	if o.namespace != "" {
		words = append(words, "-n", o.namespace)
	}
	return strings.Join(append(words, args...), " ")
}

// plugin returns a command of the plugin for the object.
func (o object) plugin(verb string) string {
	command := "kubectl realmkeeper " + verb + " " + o.kind + "/" + o.name
	if o.namespace != "" {
		command += " -n " + o.namespace
	}
	return command
}

// inNamespace returns a kubectl command in the namespace of the client.
func (o object) inNamespace(command string) string {
	return "kubectl " + command + " -n " + o.namespace
}

func (o object) describe() []string { return []string{o.kubectl("describe")} }

func (o object) edit() []string { return []string{o.kubectl("edit")} }

func (o object) status() []string { return []string{"kubectl realmkeeper status " + o.realm} }

func (o object) explainRealm() string { return "kubectl realmkeeper explain realm/" + o.realm }

// compareWithRealm returns commands that show what the realm allows and open the object in an editor.
func (o object) compareWithRealm() []string { return []string{o.explainRealm(), o.kubectl("edit")} }

// try returns a command that requests a token if the plugin can read the secret of the client.
// Otherwise, the command describes the object.
func (o object) try() []string {
	if o.client != nil && o.client.GeneratesSecret() {
		return []string{"kubectl realmkeeper token " + o.name + " -n " + o.namespace}
	}
	return o.describe()
}

// unset returns a command that removes a field of the spec.
func (o object) unset(field string) string {
	return o.kubectl("patch", "--type=merge", "-p", quote(`{"spec":{"`+field+`":null}}`))
}

// addGrant returns a command that adds a grant to the realm. The grant covers only this client's
// namespace, and allows only what the client requests.
func (o object) addGrant() []string {
	grant := v1alpha1.Grant{
		Name:       grantName(o.namespace, o.name),
		Namespaces: v1alpha1.GrantedNamespaces{Names: []string{o.namespace}},
		Scopes:     o.client.Spec.Scopes,
	}
	if len(o.client.Spec.Audiences) > 0 {
		grant.Audiences = append(grant.Audiences, o.client.Spec.Audiences...)
		grant.Audiences = append(grant.Audiences, missing(o.client.Spec.Introspection.Audiences, grant.Audiences)...)
	}
	if o.client.Spec.ClientID != "" {
		grant.ClientIDs = []string{o.client.Spec.ClientID}
	}
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/grants/-", "value": grant}})
	if err != nil {
		return []string{o.explainRealm()} // The types of a grant can always be encoded.
	}
	return []string{o.explainRealm(), "kubectl patch realm " + o.realm + " --type=json -p " + quote(string(patch))}
}

// grantName returns a valid name for a grant, which has at most 63 characters.
func grantName(namespace, name string) string {
	joined := namespace + "-" + strings.ReplaceAll(name, ".", "-")
	return strings.Trim(joined[:min(len(joined), 63)], "-")
}

// missing returns the values that are not in existing.
func missing(values, existing []string) []string {
	var result []string
	for _, value := range values {
		if !slices.Contains(existing, value) {
			result = append(result, value)
		}
	}
	return result
}

// provided returns the name and key of the Secret that provides the client secret.
func (o object) provided() (name, key string) {
	if o.client.Spec.Secret == nil || o.client.Spec.Secret.Provided == nil {
		return o.name, v1alpha1.SecretKeyClientSecret
	}
	ref := o.client.Spec.Secret.Provided.SecretRef
	return ref.Name, ref.EffectiveKey()
}

// label returns a command that allows the operator to read the provided Secret.
func (o object) label() string {
	name, _ := o.provided()
	return o.inNamespace("label secret "+name) + " --overwrite " + v1alpha1.ClientSecretLabel + "=" + v1alpha1.ClientSecretProvided
}

// replace returns a command that stores a new random value in the provided Secret and creates the
// Secret if necessary.
func (o object) replace() string {
	name, key := o.provided()
	return o.inNamespace("create secret generic "+name) + " --from-literal=" + key + `="$(openssl rand -hex 32)" --dry-run=client -o yaml | kubectl apply -f -`
}

// createAccount returns a command that creates one of the client's service accounts. The subject of
// an identity can be any text, and a shell could run parts of it when an administrator copies the
// command. The command therefore contains only valid names.
func (o object) createAccount() []string {
	var names []string
	for _, a := range o.client.Spec.ServiceAccounts {
		names = append(names, a.Name)
	}
	for _, i := range o.client.Spec.FederatedIdentities {
		if i.Issuer == v1alpha1.IssuerKubernetes {
			names = append(names, i.Subject[strings.LastIndex(i.Subject, ":")+1:])
		}
	}
	for _, name := range names {
		if len(validation.IsDNS1123Subdomain(name)) == 0 {
			return []string{o.inNamespace("create serviceaccount " + name)}
		}
	}
	return o.edit()
}

// secretName returns the name of the credentials Secret.
func (o object) secretName() string {
	return o.client.EffectiveSecretName()
}

// quote quotes a word for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
