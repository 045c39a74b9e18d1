#!/usr/bin/env bash
# Finding: a session of requests-oauthlib doesn't use its own CA bundle to get a token.
#
# Software:  requests-oauthlib 1.3.0, as in Debian 12 (python3-requests-oauthlib 1.3.0+ds-1, with
#            python3-requests 2.28.1).
# Guess:     session.verify, the CA bundle of a session of requests, counts for every request of the
#            session.
# Behavior:  fetch_token has a parameter verify, which is True by default and passed on, so the token
#            request is verified with the CAs of the system. It fails with a private CA, although a
#            call of an API with the same CA succeeds.
# Seen:      see "expected" below.
#
# What follows for a client: pass verify to fetch_token, too.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

chmod 755 "$dir"
apt-get download -qq python3-requests-oauthlib=1.3.0+ds-1 python3-oauthlib=3.2.2-1 python3-requests python3-urllib3 python3-idna python3-certifi python3-chardet python3-charset-normalizer python3-six 2>/dev/null
for package in *.deb; do dpkg -x "$package" .; done
export PYTHONPATH=$dir/usr/lib/python3/dist-packages
unset REQUESTS_CA_BUNDLE CURL_CA_BUNDLE # They take precedence over session.verify.

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out ca.pem -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null

cat >main.py <<'EOF'
import http.server, ssl, threading
from oauthlib.oauth2 import BackendApplicationClient
from requests_oauthlib import OAuth2Session

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.respond(b'{"access_token":"t","token_type":"bearer","expires_in":300}')

    def do_GET(self):
        self.respond(b"{}")

    def respond(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass

server = Server(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("ca.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"https://localhost:{server.server_port}"

def attempt(name, call):
    session = OAuth2Session(client=BackendApplicationClient(client_id="id"))
    session.verify = "ca.pem"
    try:
        call(session)
        print(f"{name}: succeeds")
    except Exception as error:
        print(f"{name}: {type(error).__name__}")

attempt("get, session.verify", lambda session: session.get(url, withhold_token=True))
attempt("fetch_token, session.verify", lambda session: session.fetch_token(url, client_id="id", client_secret="secret"))
attempt("fetch_token, verify", lambda session: session.fetch_token(url, client_id="id", client_secret="secret", verify="ca.pem"))
EOF

ls python3-requests-oauthlib_* python3-requests_*
seen=$(/usr/bin/python3 main.py)
printf '%s\n' "$seen"

expected='get, session.verify: succeeds
fetch_token, session.verify: SSLError
fetch_token, verify: succeeds'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
