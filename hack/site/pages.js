// Decides which Markdown files of the repository are pages, and where the site has them and their links
// lead. The files don't change, so that GitHub also displays them.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sections, titles } from './navigation.js'

export const root = fileURLToPath(new URL('../..', import.meta.url))
export const landing = 'hack/site/index.md'
export const repository = 'https://github.com/realmkeeper/realmkeeper'

// renamed lists the pages whose paths in the site are not derived from those of their files.
const renamed = {
  [landing]: 'index.md',
  'README.md': 'introduction.md',
  'charts/realmkeeper/README.md': 'chart.md',
  'SECURITY.md': 'security-policy.md', // docs/security.md is another page
}

// address returns the path of a page in the site, with .md: "docs/guides/README.md" is
// "guides/index.md".
export function address(page) {
  return renamed[page] ?? page.replace(/^docs\//, '').replace(/README\.md$/, 'index.md').toLowerCase()
}

// sidebar returns the navigation. It fails if the navigation and the files differ.
export function sidebar() {
  const listed = Object.values(sections).flat()
  const documents = readdirSync(posix.join(root, 'docs'), { recursive: true })
    .filter((file) => file.endsWith('.md')).map((file) => 'docs/' + file)
  const missing = documents.filter((page) => !listed.includes(page))
  const stale = listed.filter((page) => !existsSync(posix.join(root, page)))
  if (missing.length + stale.length > 0) {
    throw new Error([
      ...missing.map((page) => `${page} is in no section of hack/site/navigation.js; add it to one`),
      ...stale.map((page) => `${page} is in hack/site/navigation.js and does not exist; remove it there`),
    ].join('\n'))
  }
  return Object.entries(sections).map(([text, pages]) => ({
    text,
    collapsed: false,
    items: pages.map((page) => ({ text: title(page), link: '/' + address(page) })),
  }))
}

function title(page) {
  return titles[page] ?? readFileSync(posix.join(root, page), 'utf8').match(/^# (.*)$/m)[1].replaceAll('`', '')
}

// target returns where a relative link in a page leads: to another page of the site, or to a file
// or directory in the repository at a version. It fails if there is no such file.
export function target(href, page, version) {
  if (/^([a-z]+:|#|\/)/i.test(href)) {
    return href
  }
  const [path, anchor] = href.split('#')
  const file = posix.join(posix.dirname(page), decodeURI(path)).replace(/\/$/, '')
  if (!existsSync(posix.join(root, file))) {
    throw new Error(`${page} links to ${href}, but ${file} does not exist`)
  }
  const suffix = anchor === undefined ? '' : '#' + anchor
  if (Object.values(sections).flat().includes(file)) {
    return '/' + address(file) + suffix
  }
  const kind = statSync(posix.join(root, file)).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/${version}/${file}${suffix}`
}
