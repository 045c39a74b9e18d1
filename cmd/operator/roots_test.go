package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// The image contains no certificate authorities. The operator must nevertheless trust those that an
// issuer on the internet uses.
func TestTrustsPublicAuthoritiesWithoutSystemRoots(t *testing.T) {
	const child = "REALMKEEPER_WITHOUT_SYSTEM_ROOTS"
	if os.Getenv(child) != "" {
		if roots, err := x509.SystemCertPool(); err != nil || roots.Equal(x509.NewCertPool()) {
			t.Fatalf("no certificate authority is trusted: %v", err)
		}
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), child+"=1", "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
	if output, err := again.CombinedOutput(); err != nil {
		t.Errorf("Without system roots: %v\n%s", err, output)
	}
}
