package authority

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"unique"
)

// summaryKey is the annotation of a cached credentials Secret with the digests of its certificates. The
// API server rejects this key, so no user can set the annotation.
const summaryKey = "Realmkeeper CA Certificates"

// maxCertificates is the number of certificates up to which a Secret's are summarized. The operator
// writes one bundle; workloads could add others.
const maxCertificates = 16

// Summarize adds the digests of the certificates in a Secret's data to the annotations with which the
// Secret is cached. Nearly all Secrets contain the same bundle, so their summaries need no memory.
func Summarize(data map[string][]byte, annotations map[string]string) {
	var entries []string
	for key, value := range data {
		if !bytes.HasPrefix(value, []byte("-----BEGIN CERTIFICATE-----")) {
			continue
		}
		for block, rest := pem.Decode(value); block != nil; block, rest = pem.Decode(rest) {
			if len(entries) == maxCertificates {
				return
			}
			entries = append(entries, entry(key, block.Bytes))
		}
	}
	if len(entries) > 0 {
		annotations[summaryKey] = summary(entries)
	}
}

func summary(entries []string) string {
	slices.Sort(entries)
	return unique.Make(strings.Join(entries, " ")).Value()
}

// entriesOf returns the entries of a data key with the given certificates.
func entriesOf(key string, certificates []*x509.Certificate) []string {
	var entries []string
	for _, c := range certificates {
		entries = append(entries, entry(key, c.Raw))
	}
	return entries
}

// entry identifies a certificate, in DER format, and its data key.
func entry(key string, der []byte) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(key), key, der))
	return hex.EncodeToString(sum[:16])
}

// contains reports whether a cached Secret has all certificates under the data key.
func contains(annotations map[string]string, key string, certificates []*x509.Certificate) bool {
	entries := strings.Fields(annotations[summaryKey])
	return !slices.ContainsFunc(entriesOf(key, certificates), func(e string) bool { return !slices.Contains(entries, e) })
}
