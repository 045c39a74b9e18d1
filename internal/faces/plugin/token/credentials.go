package token

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
)

// credentials contains the values from a credentials Secret that are needed to get a token.
type credentials struct {
	clientID     string
	clientSecret string
	endpoint     string
	authority    []byte // PEM; empty if the system's root certificates are sufficient
}

// source reads credentials. Each call reads them again, because the Secret can be created or
// changed between attempts.
type source func(context.Context) (credentials, error)

// fromDirectory reads a credentials Secret that is mounted at dir.
func fromDirectory(dir string, clusterURL bool) source {
	return func(context.Context) (credentials, error) {
		return parseCredentials("directory "+dir, clusterURL, func(key string) (string, error) {
			content, err := os.ReadFile(filepath.Join(dir, key))
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return string(content), err
		})
	}
}

// fromCluster reads the credentials Secret of an ApiClient after the ApiClient is Ready.
func fromCluster(o *cluster.Options, name string, clusterURL bool) (source, error) {
	reader, err := o.Connect()
	if err != nil {
		return nil, err
	}
	namespace := reader.Namespace
	return func(ctx context.Context) (credentials, error) {
		c := &v1beta1.ApiClient{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, c); err != nil {
			return credentials{}, retryable{fmt.Errorf("reading ApiClient %s/%s: %w", namespace, name, err)}
		}
		if err := checkUsable(c); err != nil {
			return credentials{}, retryable{fmt.Errorf("ApiClient %s/%s %w", namespace, name, err)}
		}
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: namespace, Name: c.Status.SecretName}
		if err := reader.Get(ctx, key, secret); err != nil {
			return credentials{}, retryable{fmt.Errorf("reading Secret %s: %w", key, err)}
		}
		names := c.GeneratedSecret()
		return parseCredentials("Secret "+key.String(), clusterURL, func(key string) (string, error) {
			return string(secret.Data[names.DataKey(key)]), nil
		})
	}, nil
}

var errNoSecret = errors.New("has no generated Secret; use --from-directory with its credentials in files")

// checkUsable returns an error with the reason and message from the client's status if the client
// can't get tokens.
func checkUsable(c *v1beta1.ApiClient) error {
	ready := meta.FindStatusCondition(c.Status.Conditions, string(v1beta1.ConditionReady))
	switch {
	case ready == nil:
		return fmt.Errorf("%w: it has no status yet; check that the operator is running", cluster.ErrNotReady)
	case ready.Status != metav1.ConditionTrue:
		return fmt.Errorf("%w (%s): %s", cluster.ErrNotReady, ready.Reason, ready.Message)
	case c.Status.SecretName == "":
		return errNoSecret
	}
	return nil
}

var errIncomplete = errors.New("incomplete credentials")

// parseCredentials reads the credentials from the default data keys. lookup must return an empty
// value for a missing key. origin is the source named in errors.
func parseCredentials(origin string, clusterURL bool, lookup func(key string) (string, error)) (credentials, error) {
	var c credentials
	var authority string
	endpoint := v1beta1.SecretKeyTokenURL
	if clusterURL {
		endpoint = v1beta1.SecretKeyClusterTokenURL
	}
	for _, field := range []struct {
		key      string
		value    *string
		optional bool
	}{
		{key: v1beta1.SecretKeyClientID, value: &c.clientID},
		{key: v1beta1.SecretKeyClientSecret, value: &c.clientSecret},
		{key: endpoint, value: &c.endpoint},
		{key: v1beta1.SecretKeyCACrt, value: &authority, optional: true},
	} {
		value, err := lookup(field.key)
		if err != nil {
			return credentials{}, err
		}
		if value == "" && !field.optional {
			return credentials{}, retryable{fmt.Errorf("%w: %s has no %s", errIncomplete, origin, field.key)}
		}
		*field.value = value
	}
	c.authority = []byte(authority)
	return c, nil
}
