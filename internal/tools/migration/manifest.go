package migration

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// Target is where clients move to.
type Target struct {
	// Realm and Namespace are the names of the realm and of the namespace of the ApiClients.
	Realm, Namespace string
	// System is the system that the clients come from. It is part of the IDs of secrets and of the
	// names of grants.
	System string
	// AnyClientID allows the ApiClients of the namespace to have any client ID, instead of listing
	// those of the clients.
	AnyClientID bool
}

// Manifest is the YAML of an object, and the name of its file.
type Manifest struct {
	File string
	YAML []byte
}

// ErrTooMany means that the clients don't fit into one realm.
var ErrTooMany = errors.New("the clients do not fit into one realm")

// ErrAudience means that clients without an audience would get the audience of an API.
var ErrAudience = errors.New("an audience is also the name of the realm")

// These are limits of a Realm.
const (
	maxGrants         = 32
	maxGrantClientIDs = 16
	maxGrantScopes    = 32
)

// Manifests returns the realm and the ApiClients of an export, which must be sorted. The same export
// gives the same manifests.
//
// The realm has the scopes, audiences, and grants that all clients need to be accepted, and no more.
//
// Errors: ErrTooMany; ErrAudience; an error about the names in the target.
func (e *Export) Manifests(target Target) ([]Manifest, error) {
	for what, name := range map[string]string{"realm": target.Realm, "namespace": target.Namespace} {
		if !labelPattern.MatchString(name) {
			return nil, fmt.Errorf("the name of the %s must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends, not %q", what, name)
		}
	}
	if err := checkAudiences(e.Clients, target.Realm); err != nil {
		return nil, err
	}
	clients := slices.Clone(e.Clients)
	for i := range clients {
		// A token always has an audience. Without one of its own, a client would have all audiences of
		// the realm, and its tokens would be accepted by APIs that it never had access to.
		if len(clients[i].Audiences) == 0 {
			clients[i].Audiences = []string{target.Realm}
		}
		clients[i].TokenLifetime = cmp.Or(clients[i].TokenLifetime, e.TokenLifetime)
	}
	realm, err := realmOf(clients, target)
	if err != nil {
		return nil, err
	}
	manifests := make([]Manifest, 0, len(clients)+1)
	encoded, err := untrusted.MarshalYAML(realm)
	if err != nil {
		return nil, fmt.Errorf("encoding the Realm: %w", err)
	}
	manifests = append(manifests, Manifest{"realm.yaml", encoded})
	names := objectNames(clients)
	for i := range clients {
		name := names[clients[i].ID]
		object := clients[i].object(name, target, realm.Spec.TokenLifetime.Duration)
		if len(clients[i].Hashes) > 0 {
			encoded, err := untrusted.MarshalYAML(clients[i].hashes(object))
			if err != nil {
				return nil, fmt.Errorf("encoding a Secret: %w", err)
			}
			manifests = append(manifests, Manifest{"secret-" + name + ".yaml", encoded})
		}
		encoded, err := untrusted.MarshalYAML(object)
		if err != nil {
			return nil, fmt.Errorf("encoding an ApiClient: %w", err)
		}
		manifests = append(manifests, Manifest{"apiclient-" + name + ".yaml", encoded})
	}
	return manifests, nil
}

// checkAudiences fails if a client has the name of the realm as an audience, and another client, which
// has none, would get it.
func checkAudiences(clients []Client, realm string) error {
	named := slices.IndexFunc(clients, func(c Client) bool { return slices.Contains(c.Audiences, realm) })
	none := slices.IndexFunc(clients, func(c Client) bool { return len(c.Audiences) == 0 })
	if named < 0 || none < 0 {
		return nil
	}
	return fmt.Errorf("%w: the client %q has the audience %q, and clients without an audience, such as %q, would get it, too; choose another name with --realm",
		ErrAudience, clients[named].ID, realm, clients[none].ID)
}

// realmOf returns a realm that accepts the clients. Its token lifetime is the longest of all clients.
func realmOf(clients []Client, target Target) (*v1beta1.Realm, error) {
	all := needsOf(clients)
	perGrant := maxGrantClientIDs
	if target.AnyClientID {
		perGrant = max(1, len(clients))
	}
	grants := slices.Collect(slices.Chunk(clients, perGrant))
	switch {
	case len(clients) == 0:
		return nil, fmt.Errorf("%w: there are none", ErrTooMany)
	case len(grants) > maxGrants:
		return nil, fmt.Errorf("%w: its grants can list %d client IDs, but there are %d clients; use --any-client-id, or split the export and import each part into a realm of its own", ErrTooMany, maxGrants*maxGrantClientIDs, len(clients))
	case len(all.scopes) > maxScopes:
		return nil, fmt.Errorf("%w: they have %d scopes, but a realm can have %d; split the export and import each part into a realm of its own", ErrTooMany, len(all.scopes), maxScopes)
	case len(all.audiences) > maxAudiences:
		return nil, fmt.Errorf("%w: they have %d audiences, but a realm can have %d (clients without an audience get one, %q); split the export and import each part into a realm of its own", ErrTooMany, len(all.audiences), maxAudiences, target.Realm)
	}
	lifetime := v1beta1.Duration{Duration: all.lifetime}
	realm := &v1beta1.Realm{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Realm"},
		ObjectMeta: metav1.ObjectMeta{Name: target.Realm},
		Spec:       v1beta1.RealmSpec{Scopes: all.scopes, Audiences: all.audiences, TokenLifetime: &lifetime},
	}
	for i, of := range grants {
		needs := needsOf(of)
		grant := v1beta1.Grant{
			Name:       fmt.Sprintf("%s-%d", target.System, i+1),
			Namespaces: v1beta1.GrantedNamespaces{Names: []string{target.Namespace}},
			Scopes:     needs.scopes, Audiences: needs.audiences, ClientIDs: needs.ids,
		}
		if len(needs.scopes) > maxGrantScopes {
			grant.Scopes = v1beta1.GrantedScopes{v1beta1.GrantAll} // Other grants allow the same namespace the rest.
		}
		if target.AnyClientID {
			grant.ClientIDs = []string{"*"}
		}
		realm.Spec.Grants = append(realm.Spec.Grants, grant)
	}
	return realm, nil
}

// needs lists what a realm or a grant must have for clients.
type needs struct {
	ids, scopes, audiences []string
	lifetime               time.Duration
}

func needsOf(clients []Client) needs {
	var n needs
	for i := range clients {
		n.ids = append(n.ids, clients[i].ID)
		n.scopes = append(n.scopes, clients[i].Scopes...)
		n.audiences = append(n.audiences, clients[i].Audiences...)
		n.lifetime = max(n.lifetime, clients[i].TokenLifetime)
	}
	for _, of := range []*[]string{&n.scopes, &n.audiences} {
		slices.Sort(*of)
		*of = slices.Compact(*of)
	}
	return n
}

func (c *Client) object(name string, target Target, realmLifetime time.Duration) *v1beta1.ApiClient {
	object := &v1beta1.ApiClient{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "ApiClient"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: target.Namespace},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: target.Realm}, ClientID: c.ID, Description: c.Description,
			Scopes: c.Scopes, Audiences: c.Audiences, Suspend: c.Disabled,
		},
	}
	if c.TokenLifetime != realmLifetime {
		object.Spec.TokenLifetime = &v1beta1.Duration{Duration: c.TokenLifetime}
	}
	if c.BindTokens {
		object.Spec.SenderConstraint = v1beta1.SenderConstraintDPoP
	}
	if len(c.Hashes) > 0 {
		object.Spec.Secret = &v1beta1.ClientSecretSource{}
	}
	for i := range c.Hashes {
		id := target.System
		if i > 0 {
			id = fmt.Sprintf("%s-%d", target.System, i+1)
		}
		object.Spec.Secret.Hashed = append(object.Spec.Secret.Hashed, v1beta1.HashedSecret{
			ID: id, HashSecretRef: v1beta1.HashSecretReference{Name: name + "-hashes", Key: v1beta1.SecretDataKey(id)},
		})
	}
	for _, key := range c.PublicKeys {
		object.Spec.PublicKeys = append(object.Spec.PublicKeys, v1beta1.PublicKey{
			KeyID: key.ID, Algorithm: v1beta1.SigningAlgorithm(key.Algorithm),
			JWK: v1beta1.JSONWebKey(key.JWK), PEM: v1beta1.PEMPublicKey(key.PEM),
		})
	}
	return object
}

// hashes returns the Secret with the hashes to which an ApiClient refers. They aren't in the ApiClient,
// because a person may have chosen the secret, and more users can read ApiClients than Secrets.
func (c *Client) hashes(object *v1beta1.ApiClient) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: object.Spec.Secret.Hashed[0].HashSecretRef.Name, Namespace: object.Namespace,
			Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided},
		},
		StringData: map[string]string{},
	}
	for i, hash := range c.Hashes {
		secret.StringData[object.Spec.Secret.Hashed[i].HashSecretRef.EffectiveKey()] = hash
	}
	return secret
}
