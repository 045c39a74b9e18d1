# PyJWT: reads tokens from standard input, one per line, and verifies them with the keys at JWKS_URL, but not
# their audience. LEEWAY is the allowed difference of the clocks in seconds, by default PyJWT's. Prints the payload
# of each token, or the name of the error.
import json
import os
import sys

import jwt

keys = jwt.PyJWKClient(os.environ["JWKS_URL"])
leeway = {"leeway": int(os.environ["LEEWAY"])} if "LEEWAY" in os.environ else {}
for token in map(str.strip, sys.stdin):
    try:
        key = keys.get_signing_key_from_jwt(token)
        result = {"payload": jwt.decode(token, key.key, algorithms=["ES256"], options={"verify_aud": False}, **leeway)}
    except jwt.PyJWTError as error:
        result = {"error": type(error).__name__}
    print(json.dumps(result), flush=True)
