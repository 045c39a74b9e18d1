// Adds features that the platform may lack: names under localhost resolve to loopback
// (RFC 6761 §6.3), and Web Crypto is global, as in Node.js 20 and later.
import dns from 'node:dns'
import { webcrypto } from 'node:crypto'

globalThis.crypto ??= webcrypto
globalThis.CryptoKey ??= webcrypto.CryptoKey

const { lookup } = dns
dns.lookup = (name, ...rest) => lookup(name.endsWith('.localhost') ? '127.0.0.1' : name, ...rest)
