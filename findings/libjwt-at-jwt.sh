#!/usr/bin/env bash
# Finding: libjwt rejects every JWT access token of RFC 9068, and its error doesn't say why.
#
# Software:  libjwt 1.10.2, as in Debian 12 (libjwt0 and libjwt-dev 1.10.2-1+deb12u1), and for
#            comparison cjose 0.6.2.1 (libcjose0).
# Guess:     A library for JWT verifies the signature and leaves typ, which RFC 7519 §5.1 calls
#            optional, to the application.
# Behavior:  jwt_decode accepts a token without typ and one with typ JWT in any case. With another
#            typ, such as at+jwt, which RFC 9068 §2.1 requires, it returns EINVAL. cjose accepts all
#            of them.
# Seen:      see "expected" below.
#
# What follows for an API: use introspection or another library. What follows for an issuer: no signing
# algorithm makes its access tokens acceptable to libjwt.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

chmod 755 "$dir"
apt-get download -qq libjwt0=1.10.2-1+deb12u1 libjwt-dev=1.10.2-1+deb12u1 libcjose0 libcjose-dev libjansson4 libjansson-dev 2>/dev/null
for package in *.deb; do dpkg -x "$package" .; done
libraries=$dir/usr/lib/$(gcc -print-multiarch)
export LD_LIBRARY_PATH=$libraries

cat >main.c <<'EOS'
#include <cjose/cjose.h>
#include <jansson.h>
#include <jwt.h>
#include <stdio.h>
#include <string.h>

static const unsigned char secret[] = "0123456789abcdef0123456789abcdef";

static void try(const char *name, const char *header) {
    const char *claims = "{\"sub\":\"a\"}";
    cjose_err err;
    json_t *parsed = json_loads(header, 0, NULL);
    cjose_jwk_t *key = cjose_jwk_create_oct_spec(secret, sizeof secret - 1, &err);
    cjose_jws_t *jws = cjose_jws_sign(key, parsed, (const uint8_t *)claims, strlen(claims), &err);
    const char *token;
    jwt_t *jwt = NULL;
    cjose_jws_export(jws, &token, &err);
    int result = jwt_decode(&jwt, token, secret, sizeof secret - 1);
    cjose_jws_t *imported = cjose_jws_import(token, strlen(token), &err);
    printf("%s: libjwt %s, cjose %s\n", name, result == 0 ? "accepts" : strerror(result),
           imported && cjose_jws_verify(imported, key, &err) ? "accepts" : "rejects");
}

int main(void) {
    try("no typ", "{\"alg\":\"HS256\"}");
    try("typ JWT", "{\"alg\":\"HS256\",\"typ\":\"JWT\"}");
    try("typ jwt", "{\"alg\":\"HS256\",\"typ\":\"jwt\"}");
    try("typ at+jwt", "{\"alg\":\"HS256\",\"typ\":\"at+jwt\"}");
    return 0;
}
EOS

ls libjwt0_* libcjose0_*
gcc -Iusr/include main.c -L"$libraries" -l:libjwt.so.0 -l:libcjose.so.0 -l:libjansson.so.4
seen=$(./a.out)
printf '%s\n' "$seen"

expected='no typ: libjwt accepts, cjose accepts
typ JWT: libjwt accepts, cjose accepts
typ jwt: libjwt accepts, cjose accepts
typ at+jwt: libjwt Invalid argument, cjose accepts'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
