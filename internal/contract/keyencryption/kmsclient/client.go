// Package kmsclient connects to a KMS plugin. It speaks version 2 of the KMS API of Kubernetes
// (k8s.io/kms) over a Unix socket, so that existing plugins work.
package kmsclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/validation"
	kms "k8s.io/kms/apis/v2"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
)

// Limits of the KMS API.
const (
	maxKeyID       = 1 << 10
	maxCiphertext  = 1 << 10
	maxAnnotations = 32 << 10
)

// Options configures a Client.
type Options struct {
	// Socket is the path of the plugin's Unix socket.
	Socket string
	// Timeout limits each request. If zero, it is keyencryption.DefaultTimeout.
	Timeout time.Duration
	// Metrics counts the requests. If nil, they are not counted.
	Metrics *Metrics
}

var _ keyencryption.Plugin = (*Client)(nil)

// Client sends requests to a KMS plugin. It is safe for concurrent use.
type Client struct {
	connection *grpc.ClientConn
	plugin     kms.KeyManagementServiceClient
	timeout    time.Duration
	metrics    *Metrics
}

// Dial returns a client. It doesn't connect until the first request, and reconnects when needed.
func Dial(o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = keyencryption.DefaultTimeout
	}
	// Reconnect soon after the plugin is back.
	reconnect := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	connection, err := grpc.NewClient("unix:"+o.Socket,
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: o.Timeout}))
	if err != nil {
		return nil, fmt.Errorf("connecting to the KMS plugin at %s: %w", o.Socket, err)
	}
	return &Client{connection: connection, plugin: kms.NewKeyManagementServiceClient(connection), timeout: o.Timeout, metrics: o.Metrics}, nil
}

// Close closes the connection. Requests in progress fail.
func (c *Client) Close() error { return c.connection.Close() }

// Status returns the ID of the key with which the plugin encrypts.
//
// Errors: keyencryption.ErrUnavailable, also if the plugin reports that it isn't healthy, and
// keyencryption.ErrRejected.
func (c *Client) Status(ctx context.Context) (keyID string, err error) {
	var response *kms.StatusResponse
	defer func() { c.metrics.setAvailable(err == nil) }()
	err = c.call(ctx, "status", func(ctx context.Context) (err error) {
		response, err = c.plugin.Status(ctx, &kms.StatusRequest{})
		return err
	})
	switch {
	case err != nil:
		return "", err
	case response.GetVersion() != "v2" && response.GetVersion() != "v2beta1":
		return "", fmt.Errorf("%w: it has version %q of the KMS API, and version v2 is required", keyencryption.ErrRejected, clipped(response.GetVersion()))
	case response.GetHealthz() != "ok":
		return "", fmt.Errorf("%w: it reports %q", keyencryption.ErrUnavailable, clipped(response.GetHealthz()))
	}
	return response.GetKeyId(), checkKeyID(response.GetKeyId())
}

// Encrypt encrypts a data key.
func (c *Client) Encrypt(ctx context.Context, plaintext []byte) (keyencryption.Wrapped, error) {
	var response *kms.EncryptResponse
	err := c.call(ctx, "encrypt", func(ctx context.Context) (err error) {
		response, err = c.plugin.Encrypt(ctx, &kms.EncryptRequest{Plaintext: plaintext, Uid: rand.Text()})
		return err
	})
	if err != nil {
		return keyencryption.Wrapped{}, err
	}
	if err := checkKeyID(response.GetKeyId()); err != nil {
		return keyencryption.Wrapped{}, err
	}
	if n := len(response.GetCiphertext()); n == 0 || n > maxCiphertext {
		return keyencryption.Wrapped{}, fmt.Errorf("%w: its ciphertext has %d bytes, and 1 to %d are allowed", keyencryption.ErrRejected, n, maxCiphertext)
	}
	return keyencryption.Wrapped{
		KeyID: response.GetKeyId(), Ciphertext: response.GetCiphertext(), Annotations: response.GetAnnotations(),
	}, checkAnnotations(response.GetAnnotations())
}

// Decrypt returns the plaintext of a data key.
func (c *Client) Decrypt(ctx context.Context, w keyencryption.Wrapped) ([]byte, error) {
	var response *kms.DecryptResponse
	err := c.call(ctx, "decrypt", func(ctx context.Context) (err error) {
		response, err = c.plugin.Decrypt(ctx, &kms.DecryptRequest{
			Ciphertext: w.Ciphertext, KeyId: w.KeyID, Annotations: w.Annotations, Uid: rand.Text(),
		})
		return err
	})
	return response.GetPlaintext(), err
}

// call sends one request with the timeout, and classifies its error.
func (c *Client) call(ctx context.Context, operation string, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	started := time.Now()
	err := request(ctx)
	c.metrics.observe(operation, time.Since(started), status.Code(err))
	switch status.Code(err) {
	case codes.OK:
		c.metrics.setAvailable(true)
		return nil
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
		c.metrics.setAvailable(false)
		return fmt.Errorf("%w: %s: %s", keyencryption.ErrUnavailable, operation, clipped(status.Convert(err).Message()))
	default:
		return fmt.Errorf("%w: %s: %s", keyencryption.ErrRejected, operation, clipped(status.Convert(err).Message()))
	}
}

func checkKeyID(id string) error {
	if id == "" || len(id) > maxKeyID {
		return fmt.Errorf("%w: its key ID has %d bytes, and 1 to %d are allowed", keyencryption.ErrRejected, len(id), maxKeyID)
	}
	return nil
}

func checkAnnotations(annotations map[string][]byte) error {
	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
		if len(validation.IsFullyQualifiedDomainName(nil, key)) > 0 {
			return fmt.Errorf("%w: the key of an annotation is not a fully qualified domain name", keyencryption.ErrRejected)
		}
	}
	if size > maxAnnotations {
		return fmt.Errorf("%w: its annotations have %d bytes, and at most %d are allowed", keyencryption.ErrRejected, size, maxAnnotations)
	}
	return nil
}

// maxMessage limits the length of the plugin's messages in errors.
const maxMessage = 200

// clipped returns a plugin's message as a single short line.
func clipped(message string) string {
	message = strings.ToValidUTF8(strings.Join(strings.Fields(message), " "), "")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return message
}
