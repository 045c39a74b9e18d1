// Drives Firefox on the pages of the portal. Each line of its input is a step, and it writes a line with the result.
import { createInterface } from 'node:readline'
import puppeteer from 'puppeteer-core'

const [portal, token, namespace] = process.argv.slice(2)
const browser = await puppeteer.launch({ browser: 'firefox', executablePath: '/usr/bin/firefox-esr' })
const page = await browser.newPage()
const open = path => page.goto(portal + path)
const find = selector => page.waitForSelector(selector, { visible: true })
const labeled = text => `::-p-xpath(//*[self::button or self::a][normalize-space(.)="${text}"])`
const click = async selector => (await find(selector)).click()
const follow = selector => Promise.all([page.waitForNavigation(), click(selector)])
const press = text => follow(labeled(text))
const fill = (selector, text) => page.$eval(selector, (e, text) => { e.value = text }, text)
const read = selector => page.$eval(selector, e => e.innerText.trim())
const confirm = () => follow('[popover]:popover-open .choices button:not([popovertarget])')
async function act(action, selector, text) {
  await click(labeled(action))
  await find('[popover]:popover-open')
  if (selector) await fill(selector, text)
  await confirm()
}

const steps = {
  async 'sign in' () {
    await open('/sign-in')
    await (await find('#token')).type(token)
    await press('Sign in')
    return read('.user bdi')
  },
  async create () {
    await press('Realms')
    await press('acme')
    await press('Create client')
    await fill('#namespace', namespace)
    await press('Continue')
    await fill('#name', 'billing')
    await click('input[value="orders.read"]')
    await press('Create client')
    return read('#client-secret')
  },
  async rotate () {
    await press('Done')
    await act('Rotate')
    return read('#client-secret')
  },
  async revoke () {
    await press('Done')
    await act('Revoke')
    return 'done'
  },
  async suspend () {
    await act('Suspend')
    return 'done'
  },
  async resume () {
    await open(`/clients/${namespace}/billing`)
    await act('Resume')
    return 'done'
  },
  async expire () {
    await act('Expiration', '#expires', '2020-01-01T00:00')
    return 'done'
  },
  async delete () {
    await act('Delete', '#confirm', 'billing')
    await open(`/clients/${namespace}/billing`)
    return read('h1')
  },
  async 'sign out' () {
    await press('Sign out')
    await open('/clients')
    return read('h1')
  },
}

console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  let result
  try {
    result = await steps[line]()
  } catch (error) {
    const text = await page.evaluate(() => document.body.innerText).catch(() => '')
    result = `${error} at ${page.url()}: ${text}`
  }
  console.log(result.split(/\s+/).join(' '))
}
await browser.close()
