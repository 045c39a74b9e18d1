// jwt-status-list: reads tokens from standard input, one per line, and looks up their entries in the status
// list, which it loads for each token. Prints the error, or none.
import { createInterface } from 'node:readline'
import { getListFromStatusListJWT, getStatusListFromJWT } from '@sd-jwt/jwt-status-list'

for await (const token of createInterface({ input: process.stdin })) {
  const { uri, idx } = getStatusListFromJWT(token)
  const response = await fetch(uri, { headers: { accept: 'application/statuslist+jwt' } })
  const list = getListFromStatusListJWT(await response.text())
  console.log(JSON.stringify(list.getStatus(idx) === 0 ? {} : { error: 'token is revoked' }))
}
