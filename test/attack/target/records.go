// Package target runs the attacked programs: the token server with many clients, and the portal.
package target

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

const (
	realmName = "acme"
	realmUID  = types.UID("0d3b1a52-0000-4000-8000-000000000000")
	// HostName is the host name of the token server and of the portal.
	HostName = "api.realmkeeper.localhost"
	// TokenPath is the path of the token endpoint.
	TokenPath = "/" + realmName + "/oauth2/token"
	// VerifyPath is the path of the verify endpoint.
	VerifyPath = "/" + realmName + "/oauth2/verify"
	audience   = "https://orders.example"
)

// Client is a client that the attackers or the honest clients use.
type Client struct {
	ID     string
	Secret string
	// Hash is the PHC string of the secret. If it is empty, the secret is hashed as the operator
	// hashes the secrets that it generates.
	Hash string
}

// NewClient returns a client with a generated secret.
func NewClient(t testing.TB, id string) Client {
	t.Helper()
	secret, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Client{ID: id, Secret: secret}
}

// Fill writes the records of a realm, of the given clients, and of many others. It returns their
// namespace. It writes the records without the operator, which would take minutes to
// reconcile the objects.
func Fill(t testing.TB, cluster *env.Env, others int, clients ...Client) string {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	write := func(applied *corev1ac.SecretApplyConfiguration, err error) error {
		if err != nil {
			return err
		}
		secret := &corev1.Secret{}
		if err := convert(applied, secret); err != nil {
			return err
		}
		_, err = api.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
		return err
	}
	if err := write(realmRecord(namespace)); err != nil {
		t.Fatal(err)
	}
	var writing errgroup.Group
	writing.SetLimit(16)
	for _, c := range clients {
		writing.Go(func() error { return write(clientRecord(namespace, c)) })
	}
	for i := range others {
		writing.Go(func() error {
			return write(clientRecord(namespace, Client{ID: fmt.Sprintf("team-%03d.service-%05d", i%100, i)}))
		})
	}
	if err := writing.Wait(); err != nil {
		t.Fatalf("Failed to write the records: %v", err)
	}
	return namespace
}

func realmRecord(namespace string) (*corev1ac.SecretApplyConfiguration, error) {
	now := time.Now()
	key, err := signingkey.Generate(signingkey.ES256, now, rand.Reader)
	if err != nil {
		return nil, err
	}
	key.State, key.PublishedAt, key.ActiveAt, key.LongestLifetime = signingkey.Active, now, now, time.Hour
	owner := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: realmName, UID: realmUID}}
	return recordsecret.ForRealm(namespace, owner, record.Realm{
		Name: realmName, Issuer: "https://" + HostName + "/" + realmName, TokenLifetimeSeconds: 3600,
		Scopes: []string{"orders:read", "orders:write"}, KeyCacheSeconds: 300, Keys: []signingkey.Key{key},
	})
}

func clientRecord(namespace string, c Client) (*corev1ac.SecretApplyConfiguration, error) {
	id, hash := rand.Text(), c.Hash
	if hash == "" {
		verifier, err := clientsecret.Hash(c.Secret, rand.Reader)
		if err != nil {
			return nil, err
		}
		id, hash = verifier.ID(), verifier.String()
	}
	uid := types.UID("uid-of-" + c.ID)
	return recordsecret.ForClient(namespace, record.Client{
		UID: uid, Namespace: "apps", Name: c.ID, Identity: uid, RealmUID: realmUID, RealmName: realmName, ClientID: c.ID,
		Scopes: []string{"orders:read", "orders:write"}, Audiences: []string{audience},
		Secrets: []record.ClientSecret{{ID: id, CreatedAt: time.Now(), Hash: hash}},
	})
}

// convert copies an object by its JSON.
func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}
