#!/usr/bin/env bash
# Finding: an OpenTelemetry Collector that verifies tokens trusts only the first certificate in its file
# of CAs.
#
# Software:  github.com/open-telemetry/opentelemetry-collector-contrib/extension/oidcauthextension
#            v0.165.1.
# Guess:     issuer_ca_path is a bundle like ca_file everywhere else in the collector: all of its
#            certificates count. While a CA is replaced, it contains both.
# Behavior:  The extension parses the first certificate and ignores the others, without a warning. If the
#            certificate of the issuer is from the second CA, the collector doesn't start. A collector
#            that runs notices it when it loads new keys.
# Seen:      see "expected" below.
#
# What follows for a collector: put the CA of the issuer's certificate first. What follows for an issuer
# that distributes a bundle: put the CA that signs now first, and the next one after it.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOS'
module finding

go 1.26

require github.com/open-telemetry/opentelemetry-collector-contrib/extension/oidcauthextension v0.165.1
EOS

cat >main.go <<'EOS'
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/oidcauthextension"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
)

// authority returns a CA, and a certificate of a server that it signed.
func authority(name string) (ca []byte, server tls.Certificate) {
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	parent, err := x509.ParseCertificate(der)
	check(err)
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, parent, serverKey.Public(), key)
	check(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: serverKey}
}

// start returns what happens to a collector that starts with this bundle.
func start(issuer string, bundle []byte) string {
	path := "bundle.pem"
	check(os.WriteFile(path, bundle, 0o600))
	factory := oidcauthextension.NewFactory()
	config := factory.CreateDefaultConfig().(*oidcauthextension.Config)
	config.Providers = []oidcauthextension.ProviderCfg{{IssuerURL: issuer, Audience: "api", IssuerCAPath: path}}
	created, err := factory.Create(context.Background(), extension.Settings{
		ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}, config)
	check(err)
	err = created.Start(context.Background(), componenttest.NewNopHost())
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return unknown.Error()
	}
	check(err)
	check(created.Shutdown(context.Background()))
	return "starts"
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	other, _ := authority("other")
	own, certificate := authority("own")
	var issuer *httptest.Server
	issuer = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"})
	}))
	issuer.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	issuer.Config.ErrorLog = log.New(io.Discard, "", 0)
	issuer.StartTLS()
	defer issuer.Close()

	fmt.Println("the issuer's CA:", start(issuer.URL, own))
	fmt.Println("the issuer's CA, then another one:", start(issuer.URL, slices.Concat(own, other)))
	fmt.Println("another CA, then the issuer's:", start(issuer.URL, slices.Concat(other, own)))
}
EOS

go mod tidy >/dev/null 2>&1
go list -m github.com/open-telemetry/opentelemetry-collector-contrib/extension/oidcauthextension
seen=$(go run .)
printf '%s\n' "$seen"

expected='the issuer'\''s CA: starts
the issuer'\''s CA, then another one: starts
another CA, then the issuer'\''s: x509: certificate signed by unknown authority'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
