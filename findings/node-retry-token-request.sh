#!/usr/bin/env bash
# Finding: no usual library of Node.js that repeats requests handles a token request with 429 and
# Retry-After: four don't repeat it, and the fifth doesn't wait.
#
# Software:  got 14.6.6, ky 1.14.3, axios-retry 4.5.0 with axios 1.21.1, undici 7.30.2 (RetryAgent),
#            fetch-retry 6.0.0.
# Guess:     Each of them repeats a token request that got 429 with Retry-After: 2 after two seconds.
# Behavior:  got, ky, axios-retry, and the RetryAgent of undici repeat a GET after the time in
#            Retry-After, but by default no POST, and a token request is one. fetch-retry repeats
#            both, but doesn't read Retry-After: it waits for retryDelay.
# Seen:      see "expected" below.
#
# What follows for a client: repeat token requests in code of your own, or allow POST (methods of got,
# ky, and undici, retryCondition of axios-retry).
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts got@14.6.6 ky@1.14.3 axios@1.21.1 axios-retry@4.5.0 undici@7.30.2 fetch-retry@6.0.0

cat >main.mjs <<'EOF'
import { createServer } from 'node:http'
import got from 'got'
import ky from 'ky'
import axios from 'axios'
import axiosRetry, { exponentialDelay } from 'axios-retry'
import { Agent, RetryAgent, request } from 'undici'
import fetchRetry from 'fetch-retry'

// The first response to each path is 429 with Retry-After: 2. Later ones are 200.
const times = new Map()
const server = createServer((request, response) => {
  const all = times.get(request.url) ?? []
  times.set(request.url, [...all, Date.now()])
  request.resume().on('end', () => {
    response.writeHead(all.length ? 200 : 429, { 'content-type': 'application/json', ...(all.length ? {} : { 'retry-after': '2' }) })
    response.end('{}')
  })
})
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
const base = `http://127.0.0.1:${server.address().port}/`
const form = () => new URLSearchParams({ grant_type: 'client_credentials' })

axiosRetry(axios, { retries: 3, retryDelay: exponentialDelay })
const agent = new RetryAgent(new Agent())
const retry = fetchRetry(fetch, { retries: 3, retryOn: [429, 503], retryDelay: 100 })
const clients = {
  got: (method, url) => got(url, { method, ...(method === 'POST' && { form: { grant_type: 'client_credentials' } }) }),
  ky: (method, url) => ky(url, { method, ...(method === 'POST' && { body: form() }) }),
  'axios-retry': (method, url) => axios({ url, method, ...(method === 'POST' && { data: form() }) }),
  'undici RetryAgent': (method, url) => request(url, { dispatcher: agent, method, ...(method === 'POST' && { body: form().toString() }) }),
  'fetch-retry': (method, url) => retry(url, { method, ...(method === 'POST' && { body: form() }) }),
}
for (const [name, send] of Object.entries(clients)) {
  for (const method of ['GET', 'POST']) {
    const path = encodeURIComponent(name) + method
    try { await send(method, base + path) } catch {}
    const all = times.get('/' + path)
    console.log(`${name}, ${method}: ${all.length === 1 ? 'not repeated' : `repeated after ${Math.round((all[1] - all[0]) / 1000)} s`}`)
  }
}
server.close()
process.exit(0)
EOF

npm ls --depth=0 | grep -- '── '
seen=$(node main.mjs)
printf '%s\n' "$seen"

expected='got, GET: repeated after 2 s
got, POST: not repeated
ky, GET: repeated after 2 s
ky, POST: not repeated
axios-retry, GET: repeated after 2 s
axios-retry, POST: not repeated
undici RetryAgent, GET: repeated after 2 s
undici RetryAgent, POST: not repeated
fetch-retry, GET: repeated after 0 s
fetch-retry, POST: repeated after 0 s'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
