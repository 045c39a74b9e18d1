#!/usr/bin/env bash
# Finding: while the issuer is down, one token with a new key ID makes PyJWT reject all other tokens,
# too.
#
# Software:  PyJWT 2.6.0, class PyJWKClient, as in Debian 12 (python3-jwt 2.6.0-1+deb12u1, with
#            python3-cryptography).
# Guess:     The keys are remembered for lifespan, 5 minutes by default. If they can't be loaded again
#            for an unknown key ID, this token is rejected, and tokens of known keys are still
#            verified.
# Behavior:  A load that fails empties the cache. From then on, until the issuer is back, each token
#            causes a load, and fails with PyJWKClientError.
# Seen:      see "expected" below.
#
# What follows for an API: keep the last keys yourself, and load new ones at most every few seconds.
# What follows for an issuer: a rotation during an outage is noticed by all callers, not only by those
# with new tokens.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

chmod 755 "$dir"
apt-get download -qq python3-jwt=2.6.0-1+deb12u1 python3-cryptography python3-cffi-backend 2>/dev/null
for package in *.deb; do dpkg -x "$package" .; done
export PYTHONPATH=$dir/usr/lib/python3/dist-packages

cat >main.py <<'EOF'
import http.server, json, threading
from cryptography.hazmat.primitives.asymmetric import ec
from jwt import PyJWKClient
from jwt.algorithms import ECAlgorithm
from jwt.utils import to_base64url_uint

def jwk(kid):
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": kid,
            "x": to_base64url_uint(numbers.x).decode(), "y": to_base64url_uint(numbers.y).decode()}

keys, up = [jwk("known")], True

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if up else 503)
        self.end_headers()
        self.wfile.write(json.dumps({"keys": keys}).encode() if up else b"")

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = PyJWKClient(f"http://127.0.0.1:{server.server_port}/jwks", lifespan=3600)

def find(when, kid):
    try:
        client.get_signing_key(kid)
        print(f"{when}, {kid} key: found")
    except Exception as error:
        print(f"{when}, {kid} key: {type(error).__name__}")

find("before the outage", "known")
up = False
find("in the outage", "known")
keys.append(jwk("new"))
find("in the outage", "new")
find("in the outage", "known")
up = True
find("after the outage", "known")
find("after the outage", "new")
EOF

ls python3-jwt_*
seen=$(/usr/bin/python3 main.py)
printf '%s\n' "$seen"

expected='before the outage, known key: found
in the outage, known key: found
in the outage, new key: PyJWKClientError
in the outage, known key: PyJWKClientError
after the outage, known key: found
after the outage, new key: found'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
