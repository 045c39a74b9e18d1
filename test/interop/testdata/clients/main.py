# Calls each URL on the standard input and prints the status, or the error. "later" makes the token a minute older.
import sys

from client import Client

client = Client(sys.argv[1])
for url in sys.stdin:
    if url == "later\n":
        client.issued -= 60
        continue
    try:
        with client.get(url.strip()) as response:
            print(response.status, flush=True)
    except OSError as error:
        print(repr(error), flush=True)
