package interop_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// During a renewal of the managed CA, curl and Node.js get tokens with the bundle of both CAs, before and
// after the next one signs.
func TestCARenewal(t *testing.T) {
	// The operator publishes the next CA immediately. It signs after two minutes at the earliest.
	i := install.New(t, env.Start(t), install.Settings{SpeedUp: 3600, CALifetime: "2400h", CAOverlap: "120h"})
	hosts := []string{"api." + install.Domain, "realmkeeper-token-server", "realmkeeper-token-server." + i.Namespace + ".svc", "realmkeeper-token-server." + i.Namespace + ".svc.cluster.local"}
	old, err := certificate.NewCA(hosts, 10*time.Minute, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: authority.SecretName, Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: old.Certificate, corev1.TLSPrivateKeyKey: old.Key},
	}
	i.Create(t, ca)
	i.StartOperator(t, "")
	install.Eventually(t, "the next CA", func() error {
		if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(ca), ca); err != nil {
			return err
		}
		if len(ca.Data["next.crt"]) == 0 {
			return fmt.Errorf("the Secret has none")
		}
		return nil
	})
	server := i.StartTokenServer(t)
	i.MountServingCertificate(t)
	realm, c := install.Realm("acme"), install.ApiClient(i.Env.Namespace(t), "billing", "acme")
	i.Create(t, realm, c)
	i.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	credentials := i.CredentialsSecret(t, c)
	both := credentials.Data["ca.crt"]

	awaitIssuer(t, server, both, old.Leaf.Subject.CommonName)
	thirdParties(t, credentials, both)
	next, err := certificate.Parse(ca.Data["next.crt"])
	if err != nil {
		t.Fatal(err)
	}
	// Do what the operator does when the overlap ends.
	install.Change(t, i, ca, func(secret *corev1.Secret) {
		secret.Data = map[string][]byte{
			corev1.TLSCertKey: secret.Data["next.crt"], corev1.TLSPrivateKeyKey: secret.Data["next.key"], "previous.crt": old.Certificate,
		}
	})
	awaitIssuer(t, server, both, next[0].Subject.CommonName)
	thirdParties(t, credentials, both)
}

// awaitIssuer waits until a client that trusts the bundle gets a serving certificate of the CA with the
// given name.
func awaitIssuer(t *testing.T, server *install.TokenServer, bundle []byte, name string) {
	t.Helper()
	install.Eventually(t, "a serving certificate of "+name, func() error {
		httpClient := server.ClientTrusting(t, bundle)
		defer httpClient.CloseIdleConnections()
		response, err := httpClient.Get("https://api." + install.Domain + "/")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if got := response.TLS.PeerCertificates[0].Issuer.CommonName; got != name {
			return fmt.Errorf("it is one of %s", got)
		}
		return nil
	})
}

// getToken is a program for Node.js that trusts only the CAs in CA_FILE.
const getToken = `
const https = require("node:https"), fs = require("node:fs");
const options = { method: "POST", ca: fs.readFileSync(process.env.CA_FILE), auth: process.env.CLIENT_ID + ":" + process.env.CLIENT_SECRET,
  lookup: (name, options, done) => options.all ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(null, "127.0.0.1", 4) };
https.request(process.env.TOKEN_URL + "?grant_type=client_credentials", options, (response) => {
  if (response.statusCode !== 200) throw new Error("status " + response.statusCode);
}).end();
`

// thirdParties gets a token with curl and Node.js, which trust the bundle.
func thirdParties(t *testing.T, credentials *corev1.Secret, bundle []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	values := append(os.Environ(), "CA_FILE="+file, "CLIENT_ID="+string(credentials.Data["client_id"]),
		"CLIENT_SECRET="+string(credentials.Data["client_secret"]), "TOKEN_URL="+string(credentials.Data["token_url"]))
	for program, args := range map[string][]string{
		"curl": {
			"--silent", "--show-error", "--fail-with-body", "--cacert", file, "--user", string(credentials.Data["client_id"]) + ":" + string(credentials.Data["client_secret"]),
			"--request", "POST", string(credentials.Data["token_url"]) + "?grant_type=client_credentials",
		},
		"node": {"--eval", getToken},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		command := exec.CommandContext(ctx, program, args...)
		command.Env = values
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", program, err, out)
		}
		cancel()
	}
}
