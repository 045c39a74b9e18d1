#!/usr/bin/env bash
# Finding: a client with requests-oauthlib can't see that the token endpoint responded with 503 or
# 429.
#
# Software:  requests-oauthlib 1.3.0 and oauthlib 3.2.2, as in Debian 12 (python3-requests-oauthlib
#            1.3.0+ds-1, python3-oauthlib 3.2.2-1).
# Guess:     If the token endpoint responds with 503, fetch_token raises requests.HTTPError, or
#            another exception that has the status and Retry-After.
# Behavior:  fetch_token doesn't look at the status. It parses the body, so a proxy's 503 is a
#            "missing access token", and an error of the endpoint has neither the status nor the
#            headers. 429 and 503 with the same error code are equal.
# Seen:      see "expected" below.
#
# What follows for a client: register a compliance hook "access_token_response" that calls
# raise_for_status for 429 and 5xx, or wait a while after every exception.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

chmod 755 "$dir"
apt-get download -qq python3-requests-oauthlib=1.3.0+ds-1 python3-oauthlib=3.2.2-1 python3-requests python3-urllib3 python3-idna python3-certifi python3-chardet python3-charset-normalizer python3-six 2>/dev/null
for package in *.deb; do dpkg -x "$package" .; done
export PYTHONPATH=$dir/usr/lib/python3/dist-packages OAUTHLIB_INSECURE_TRANSPORT=1

cat >main.py <<'EOF'
import http.server, threading
from oauthlib.oauth2 import BackendApplicationClient
from requests_oauthlib import OAuth2Session

RESPONSES = {
    "503 with HTML": (503, "text/html", "<h1>Service Unavailable</h1>"),
    "503 with an OAuth error": (503, "application/json", '{"error":"temporarily_unavailable"}'),
    "429 with an OAuth error": (429, "application/json", '{"error":"temporarily_unavailable"}'),
    "502, empty": (502, "text/plain", ""),
}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, kind, body = self.server.response
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Retry-After", "60")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for name, server.response in RESPONSES.items():
    session = OAuth2Session(client=BackendApplicationClient(client_id="id"))
    try:
        session.fetch_token(f"http://127.0.0.1:{server.server_port}/token", client_id="id", client_secret="secret")
        print(f"{name}: token accepted")
    except Exception as error:
        attached = {key: value for key, value in vars(error).items() if value is not None}
        response = attached.get("response")
        print(f"{name}: {type(error).__name__}: {error}; status_code: {attached.get('status_code')}; response attached: {response is not None}")
EOF

ls python3-oauthlib_* python3-requests-oauthlib_*
seen=$(/usr/bin/python3 main.py)
printf '%s\n' "$seen"

expected='503 with HTML: MissingTokenError: (missing_token) Missing access token parameter.; status_code: None; response attached: False
503 with an OAuth error: TemporarilyUnavailableError: (temporarily_unavailable) ; status_code: None; response attached: False
429 with an OAuth error: TemporarilyUnavailableError: (temporarily_unavailable) ; status_code: None; response attached: False
502, empty: MissingTokenError: (missing_token) Missing access token parameter.; status_code: None; response attached: False'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
