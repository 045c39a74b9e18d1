package pki

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// caName is the start of the common name of every generated CA. The rest differs between CAs, so that
// verifiers can tell them apart.
const caName = "Realmkeeper CA "

// CA is a certificate authority: a pair that can sign certificates.
type CA struct {
	Pair

	// Leaf is the certificate whose key signs.
	Leaf *x509.Certificate
	// Chain contains Leaf and the certificates that follow it in the pair. A generated CA has only
	// Leaf. An intermediate CA is followed by its root.
	Chain []*x509.Certificate

	signer crypto.Signer
}

// NewCA generates a CA. Its certificates are valid only for the hosts and their subdomains; if there
// are no hosts, for all names. NewCA fails only if random does.
func NewCA(hosts []string, lifetime time.Duration, now time.Time, random io.Reader) (*CA, error) {
	serial, err := newSerial(random)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: caName + fmt.Sprintf("%032x", serial)[:12]},
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		MaxPathLenZero:        true, // no other CA below it
		BasicConstraintsValid: true,
	}
	if len(hosts) > 0 {
		template.PermittedDNSDomainsCritical = true
		template.PermittedDNSDomains = hosts
		template.ExcludedIPRanges = allAddresses()
	}
	pair, err := sign(template, nil, now, random)
	if err != nil {
		return nil, err
	}
	return ParseCA(pair)
}

// allAddresses returns all IPv4 and IPv6 addresses. Without them, a CA whose DNS names are limited
// could still sign for any address.
func allAddresses() []*net.IPNet {
	return []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
}

// ParseCA reads a CA. The error wraps ErrInvalidPair if the pair can't sign certificates.
func ParseCA(p Pair) (*CA, error) {
	parsed, err := p.parse()
	if err != nil {
		return nil, err
	}
	chain, _ := Parse(p.Certificate) // text between the certificates does not matter
	signer, ok := parsed.PrivateKey.(crypto.Signer)
	if !ok || !Signs(parsed.Leaf) {
		return nil, fmt.Errorf("%w: the certificate is not one of a certificate authority, which has the basic constraint CA and may sign certificates", ErrInvalidPair)
	}
	return &CA{Pair: p, Leaf: parsed.Leaf, Chain: chain, signer: signer}, nil
}

// Signs reports whether a certificate is one of a CA.
func Signs(c *x509.Certificate) bool {
	return c.BasicConstraintsValid && c.IsCA && (c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0)
}

// IsGenerated reports whether a certificate has the name of a CA that NewCA generated.
func IsGenerated(c *x509.Certificate) bool { return strings.HasPrefix(c.Subject.CommonName, caName) }

// Issue generates a serving certificate for the given hosts. The first host becomes the common name.
// The certificate expires after lifetime, but not after the CA. Issue fails only if random does.
func (c *CA) Issue(hosts []string, lifetime time.Duration, now time.Time, random io.Reader) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: shortName(hosts[0])},
		DNSNames:    hosts,
		NotAfter:    timestamp.Earliest(now.Add(lifetime), c.Leaf.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return sign(template, c, now, random)
}

// Signed reports whether c signed a certificate.
func (c *CA) Signed(certificate *x509.Certificate) bool { return SignedBy(certificate, c.Leaf) }

// SignedBy reports whether the key of a CA's certificate signed another certificate.
func SignedBy(certificate, ca *x509.Certificate) bool {
	return certificate.CheckSignatureFrom(ca) == nil
}

// Permits reports whether the name constraints of a CA's certificate permit all hosts.
func Permits(ca *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool {
		within := func(domain string) bool {
			domain = strings.TrimPrefix(domain, ".")
			return domain == "" || strings.EqualFold(host, domain) || strings.HasSuffix(strings.ToLower(host), "."+strings.ToLower(domain))
		}
		permitted := len(ca.PermittedDNSDomains) == 0 || slices.ContainsFunc(ca.PermittedDNSDomains, within)
		return !permitted || slices.ContainsFunc(ca.ExcludedDNSDomains, within)
	})
}

// shortName truncates a host to 64 characters, the maximum length of a common name. Verifiers use
// the DNS names instead.
func shortName(host string) string {
	return host[:min(len(host), 64)]
}
