package remedy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// object is the object that has a condition.
type object struct {
	kind, namespace, name string
	realm                 string
	client                *v1beta1.ApiClient    // nil for a Realm
	readRealm             func() *v1beta1.Realm // nil for a Realm
}

// command returns a shell command.
func command(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = untrusted.Quote(word)
	}
	return strings.Join(quoted, " ")
}

// kubectl returns a kubectl command for the object.
func (o object) kubectl(verb string, args ...string) string {
	return command(append(o.withNamespace("kubectl", verb, o.kind, o.name), args...)...)
}

// plugin returns a command of the plugin for the object.
func (o object) plugin(verb string) string {
	return command(o.withNamespace("kubectl", "realmkeeper", verb, o.kind+"/"+o.name)...)
}

// inNamespace returns a kubectl command in the namespace of the client.
func (o object) inNamespace(words ...string) string {
	return command(o.withNamespace(append([]string{"kubectl"}, words...)...)...)
}

func (o object) withNamespace(words ...string) []string {
	if o.namespace != "" {
		words = append(words, "-n", o.namespace)
	}
	return words
}

func (o object) describe() []string { return []string{o.kubectl("describe")} }

func (o object) edit() []string { return []string{o.kubectl("edit")} }

func (o object) status() []string {
	return []string{command("kubectl", "realmkeeper", "status", o.realm)}
}

func (o object) explainRealm() string {
	return command("kubectl", "realmkeeper", "explain", "realm/"+o.realm)
}

func (o object) editRealm() string { return command("kubectl", "edit", "realm", o.realm) }

// compareWithRealm returns commands that show what the realm allows and open the object in an editor.
func (o object) compareWithRealm() []string { return []string{o.explainRealm(), o.kubectl("edit")} }

// try returns a command that requests a token if the plugin can read the secret of the client.
// Otherwise, the command describes the object.
func (o object) try() []string {
	if o.client != nil && o.client.GeneratesSecret() {
		return []string{o.inNamespace("realmkeeper", "token", o.name)}
	}
	return o.describe()
}

// unset returns a command that removes a field of the spec.
func (o object) unset(field string) string {
	return o.kubectl("patch", "--type=merge", "-p", `{"spec":{"`+field+`":null}}`)
}

// addGrant returns a command that adds a grant to the realm. The grant covers only this client's
// namespace, and allows only what the client requests. If no such grant exists, because the realm
// doesn't define something that the client requests, the commands explain the realm and edit it.
// included is true if a grant of the realm includes the namespace, but doesn't cover the client.
func (o object) addGrant(included bool) []string {
	realm := o.readRealm()
	if realm == nil || !o.requestsOnlyDefined(realm) {
		return []string{o.explainRealm(), o.editRealm()}
	}
	grant := v1beta1.Grant{
		Name:             grantName(o.namespace, o.name),
		Namespaces:       v1beta1.GrantedNamespaces{Names: []string{o.namespace}},
		Scopes:           v1beta1.GrantedScopes(o.client.Spec.AllScopes()),
		Audiences:        v1beta1.GrantedAudiences(o.client.Spec.Audiences),
		Issuers:          o.client.Spec.Issuers(),
		SenderConstraint: o.client.Spec.SenderConstraint,
	}
	nearest := grants.KnownAudiences(realm)
	for i := range realm.Spec.Grants {
		existing := &realm.Spec.Grants[i]
		if !included || !grants.MayInclude(&existing.Namespaces, o.namespace, nil) {
			continue
		}
		// The client must not lose a sender constraint because it requests another scope.
		grant.SenderConstraint = cmp.Or(grant.SenderConstraint, existing.SenderConstraint)
		if granted := slices.DeleteFunc(slices.Clone(nearest), func(a string) bool { return !existing.AllowsAudience(a) }); len(granted) > 0 {
			nearest = granted
		}
	}
	introspected := o.client.Spec.Introspection.Audiences
	if len(grant.Audiences) == 0 {
		// The tokens of the client have all audiences of its grant.
		if grant.Audiences = nearest; len(missing(introspected, nearest)) > 0 {
			return []string{o.explainRealm(), o.editRealm()}
		}
	}
	if len(grant.Audiences) == 0 {
		return []string{o.explainRealm(), o.editRealm()} // the realm has no issuer yet
	}
	grant.Audiences = append(slices.Clone(grant.Audiences), missing(introspected, grant.Audiences)...)
	if o.client.Spec.ClientID != "" {
		grant.ClientIDs = []string{o.client.Spec.ClientID}
	}
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/grants/-", "value": grant}})
	if err != nil {
		return []string{o.explainRealm()} // The types of a grant can always be encoded.
	}
	return []string{o.explainRealm(), command("kubectl", "patch", "realm", o.realm, "--type=json", "-p", string(untrusted.EscapeJSON(patch)))}
}

// requestsOnlyDefined reports whether the realm defines every scope, audience, and issuer of the client.
// A grant would otherwise allow what the realm defines later.
func (o object) requestsOnlyDefined(realm *v1beta1.Realm) bool {
	issuers := []string{v1beta1.IssuerKubernetes}
	for i := range realm.Spec.TrustedIssuers {
		issuers = append(issuers, realm.Spec.TrustedIssuers[i].Name)
	}
	spec := &o.client.Spec
	return len(missing(spec.AllScopes(), realm.Spec.Scopes)) == 0 &&
		len(missing(slices.Concat(spec.Audiences, spec.Introspection.Audiences), grants.KnownAudiences(realm))) == 0 &&
		len(missing(spec.Issuers(), issuers)) == 0
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
		return o.name, v1beta1.SecretKeyClientSecret
	}
	ref := o.client.Spec.Secret.Provided.SecretRef
	return ref.Name, ref.EffectiveKey()
}

// hashSecrets returns the names of the Secrets with hashes.
func (o object) hashSecrets() []string {
	if o.client.Spec.Secret == nil {
		return nil
	}
	var names []string
	for _, h := range o.client.Spec.Secret.Hashed {
		if h.HashSecretRef.Name != "" {
			names = append(names, h.HashSecretRef.Name)
		}
	}
	return names
}

// label returns a command that allows the operator to read the Secrets that the spec references.
func (o object) label() string {
	names := o.hashSecrets()
	if names == nil {
		name, _ := o.provided()
		names = []string{name}
	}
	return o.inNamespace(append([]string{"label", "secret"}, names...)...) + " --overwrite " + v1beta1.ClientSecretLabel + "=" + v1beta1.ClientSecretProvided
}

// createSecret returns commands that create the Secret with the client secret, or that generate a hash
// and show which of the Secrets with hashes are missing. They change no Secret that exists, because other
// clients can use its keys.
func (o object) createSecret() []string {
	if names := o.hashSecrets(); names != nil {
		return []string{"kubectl realmkeeper hash", o.inNamespace(append([]string{"describe", "secret"}, names...)...)}
	}
	name, key := o.provided()
	return []string{
		o.inNamespace("create", "secret", "generic", name) + " --from-literal=" + untrusted.Quote(key) + `="$(openssl rand -hex 32)"`,
		o.label(),
	}
}

// replace returns a command that stores a new random value in the provided Secret, and keeps its other
// keys, which other clients can use.
func (o object) replace() string {
	name, key := o.provided()
	patch, _ := json.Marshal(key) // A string has no errors.
	return o.inNamespace("patch", "secret", name) + " --type=merge --patch " +
		untrusted.Quote(`{"stringData":{`+string(patch)+`:"`) + `"$(openssl rand -hex 32)"'"}}'`
}

// createAccount returns a command that creates one of the client's service accounts.
func (o object) createAccount() []string {
	for _, name := range o.client.Spec.ServiceAccounts() {
		if len(validation.IsDNS1123Subdomain(name)) == 0 {
			return []string{o.inNamespace("create", "serviceaccount", name)}
		}
	}
	return o.edit()
}

// secretName returns the name of the credentials Secret.
func (o object) secretName() string {
	return o.client.EffectiveSecretName()
}
