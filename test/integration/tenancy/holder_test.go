package tenancy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// holder is a client that holds its client ID, with everything about it that must not change.
type holder struct {
	inst        *install.Installation
	client      *v1beta1.ApiClient
	credentials *corev1.Secret
	record      *corev1.Secret
	token       string
	claims      claims
	workload    string // a token of a trusted issuer whose subject the client holds; may be empty
}

// claims are the claims of a token that don't differ between two tokens of the same client.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	ClientID string `json:"client_id"`
	Identity string `json:"client_uid"`
	Audience any    `json:"aud"`
	Scope    string `json:"scope"`
}

// newHolder creates a client and waits until it is usable.
func newHolder(t *testing.T, inst *install.Installation, create func(*testing.T) *v1beta1.ApiClient) *holder {
	t.Helper()
	return holderOf(t, inst, create(t))
}

// holderOf waits until a client is usable and returns it as the holder of its client ID.
func holderOf(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) *holder {
	t.Helper()
	scenario.AwaitUsable(t, inst, c)
	h := &holder{inst: inst, client: c, credentials: inst.CredentialsSecret(t, c), record: scenario.Record(t, inst, c)}
	h.token = inst.AccessToken(t, h.credentials)
	var err error
	if h.claims, err = claimsOf(h.token); err != nil {
		t.Fatal(err)
	}
	if body, err := record.ReadClient(h.record); err != nil || h.claims.Identity != string(c.UID) || body.Identity != c.UID || h.claims.ClientID != c.EffectiveClientID() {
		t.Fatalf("the token of ApiClient %s with UID %s has the claims %+v, and its record contains %+v: %v", c.Name, c.UID, h.claims, body, err)
	}
	return h
}

func claimsOf(token string) (c claims, err error) {
	err = install.Claims(token, &c)
	return c, err
}

// expectUnharmed checks that nothing about the holder has changed, and that every token server
// still issues tokens to it.
func (h *holder) expectUnharmed(t *testing.T) {
	t.Helper()
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: h.client.Namespace, Name: h.client.Name}}
	h.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	if c.UID != h.client.UID {
		t.Errorf("ApiClient %s has UID %s, want %s", c.Name, c.UID, h.client.UID)
	}
	now := scenario.Record(t, h.inst, c)
	if before, after := withoutBasis(t, h.record), withoutBasis(t, now); now.UID != h.record.UID || !record.Equal(before, after) {
		t.Errorf("the record of ApiClient %s has changed from\n%s to\n%s", c.Name, h.record.Data[record.DataKey], now.Data[record.DataKey])
	}
	if now := h.inst.CredentialsSecret(t, c); now.UID != h.credentials.UID || !cmp.Equal(now.Data, h.credentials.Data) {
		t.Errorf("the credentials Secret of ApiClient %s has changed", c.Name)
	}
	for _, s := range h.inst.Servers() {
		if err := h.try(t, s, s.Client(t)); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// withoutBasis returns a record without the versions of the objects that it implements, which change with
// them.
func withoutBasis(t *testing.T, secret *corev1.Secret) record.Client {
	t.Helper()
	body, err := record.ReadClient(secret)
	if err != nil {
		t.Fatal(err)
	}
	body.Basis = record.Basis{}
	return body
}

// try requests a token and checks that it and the holder's first token are valid tokens of this
// holder.
func (h *holder) try(t *testing.T, s *install.TokenServer, httpClient *http.Client) error {
	t.Helper()
	response, err := install.RequestToken(t, s, httpClient, h.credentials)
	if err != nil || response.AccessToken == "" {
		return fmt.Errorf("no token for %s: %+v, %w", h.claims.ClientID, response, err)
	}
	got, err := claimsOf(response.AccessToken)
	if diff := cmp.Diff(h.claims, got); err != nil || diff != "" {
		return fmt.Errorf("the token of %s differs (-want +got): %s, %w", h.claims.ClientID, diff, err)
	}
	if err := h.tryWorkload(t, s, httpClient); err != nil {
		return err
	}
	for _, token := range []string{h.token, response.AccessToken} {
		if valid, err := verify(t.Context(), httpClient, h.claims.Issuer, token); err != nil || !valid {
			return fmt.Errorf("a token of %s is not valid, %w", h.claims.ClientID, err)
		}
	}
	return nil
}

// tryWorkload requests a token with the workload's token alone, which selects the holder.
func (h *holder) tryWorkload(t *testing.T, s *install.TokenServer, httpClient *http.Client) error {
	t.Helper()
	if h.workload == "" {
		return nil
	}
	response, err := install.RequestTokenByGrant(t, s, httpClient, h.claims.Issuer+oauth.TokenPath, "", h.workload)
	if err != nil || response.AccessToken == "" {
		return fmt.Errorf("no token for the workload of %s: %+v, %w", h.claims.ClientID, response, err)
	}
	got, err := claimsOf(response.AccessToken)
	if diff := cmp.Diff(h.claims, got); err != nil || diff != "" {
		return fmt.Errorf("the workload's token of %s differs (-want +got): %s, %w", h.claims.ClientID, diff, err)
	}
	return nil
}

// verify reports whether the verify endpoint accepts a token.
func verify(ctx context.Context, httpClient *http.Client, issuer, token string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+oauth.VerificationPath, http.NoBody)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := httpClient.Do(req)
	if err != nil {
		return false, err
	}
	return response.StatusCode == http.StatusOK, response.Body.Close()
}

// introspect reports whether the introspection endpoint reports a token as active to the client
// with the given credentials.
func introspect(t *testing.T, s *install.TokenServer, issuer string, credentials *corev1.Secret, token string) bool {
	t.Helper()
	body := strings.NewReader(url.Values{"token": {token}}.Encode())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer+oauth.IntrospectionPath, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", oauth.ContentTypeForm)
	req.SetBasicAuth(string(credentials.Data[v1beta1.SecretKeyClientID]), string(credentials.Data[v1beta1.SecretKeyClientSecret]))
	response, err := s.Client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got struct {
		Active *bool `json:"active"`
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.Active == nil {
		t.Fatalf("introspection responded with %s: %v", response.Status, err)
	}
	return *got.Active
}

// credentialsWith returns credentials for a client ID with another client secret.
func (h *holder) credentialsWith(secret string) *corev1.Secret {
	changed := h.credentials.DeepCopy()
	changed.Data[v1beta1.SecretKeyClientSecret] = []byte(secret)
	return changed
}

// expectNoToken checks that no token server issues a token for the credentials.
func expectNoToken(t *testing.T, inst *install.Installation, credentials *corev1.Secret) {
	t.Helper()
	for _, s := range inst.Servers() {
		if err := refuses(t, s, credentials); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// awaitNoToken waits until no token server issues a token for the credentials.
func awaitNoToken(t *testing.T, inst *install.Installation, credentials *corev1.Secret) {
	t.Helper()
	for _, s := range inst.Servers() {
		install.Eventually(t, s.Name+" to reject credentials", func() error { return refuses(t, s, credentials) })
	}
}

var errIssued = errors.New("it issued a token")

// refuses returns nil if the server rejects the credentials, or has limited the rate of failures.
func refuses(t *testing.T, s *install.TokenServer, credentials *corev1.Secret) error {
	t.Helper()
	response, err := install.RequestToken(t, s, s.Client(t), credentials)
	switch {
	case err != nil:
		return err
	case response.AccessToken != "":
		return errIssued
	case response.Status != http.StatusUnauthorized && response.Status != http.StatusTooManyRequests:
		return fmt.Errorf("the response is %+v", response)
	}
	return nil
}

// pause is the time between two rounds of the victims' requests.
const pause = 100 * time.Millisecond

// watchVictims makes the victims request tokens from every token server until the returned function
// is called.
func (b *bank) watchVictims(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	for _, s := range b.inst.Servers() {
		httpClient := s.Client(t)
		running.Go(func() {
			rounds := 0
			for ; ctx.Err() == nil; rounds++ {
				for _, v := range b.victims {
					if err := v.try(t, s, httpClient); err != nil && ctx.Err() == nil {
						t.Errorf("%s: %v", s.Name, err)
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
			t.Logf("Each victim made %d requests to %s", rounds, s.Name)
		})
	}
	return stop
}

// expectUnharmed checks that nothing about the victims has changed.
func (b *bank) expectUnharmed(t *testing.T) {
	t.Helper()
	for _, v := range b.victims {
		v.expectUnharmed(t)
	}
}
