// Calls each URL on the standard input and prints the status, or the error. "later" sets the clock to a minute later.
import { createInterface } from 'node:readline'
import { Client } from './client.mjs'

const client = new Client(process.argv[2])
for await (const url of createInterface(process.stdin)) {
  if (url === 'later') {
    const now = Date.now
    Date.now = () => now() + 60_000
    continue
  }
  try {
    const response = await client.get(url)
    await response.body?.cancel()
    console.log(response.status)
  } catch (error) {
    console.log(JSON.stringify(String(error)))
  }
}
