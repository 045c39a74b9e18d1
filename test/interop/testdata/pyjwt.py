# PyJWT: reads tokens from standard input, one per line, and verifies them with the keys at JWKS_URL, but not
# their audience. Prints "accepted", or the name of the error.
import os
import sys

import jwt

keys = jwt.PyJWKClient(os.environ["JWKS_URL"])
for token in map(str.strip, sys.stdin):
    try:
        key = keys.get_signing_key_from_jwt(token)
        jwt.decode(token, key.key, algorithms=["ES256"], options={"verify_aud": False})
        print("accepted", flush=True)
    except jwt.PyJWTError as error:
        print(type(error).__name__, flush=True)
