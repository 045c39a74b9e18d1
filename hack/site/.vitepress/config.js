// The configuration of the documentation site. `make docs` builds it; CONTRIBUTING.md explains it.

import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import GithubSlugger from 'github-slugger'
import { defineConfig } from 'vitepress'
import { address, repository, root, sidebar, target } from '../pages.js'

// Only releases have a version. All other builds describe the main branch.
const version = /^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$/.test(process.env.VERSION ?? '') ? process.env.VERSION : 'main'
// The path below which the site is published, such as /v0.1/.
const base = process.env.DOCS_BASE || '/'
const icon = 'data:image/svg+xml,' + encodeURIComponent(readFileSync(`${root}internal/faces/portal/assets/favicon.svg`, 'utf8'))

export default defineConfig({
  title: 'Realmkeeper',
  description: 'A Kubernetes operator for OAuth 2.0 client credentials',
  lang: 'en-US',
  base,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: icon }]],

  srcDir: root,
  outDir: `${root}dist/docs${base}`,
  cacheDir: '../node_modules/.cache/vitepress',
  srcExclude: ['{.*,api,bin,cmd,config,dist,internal,test}/**', 'hack/!(site)/**', 'hack/site/!(index.md)'],
  buildConcurrency: 1, // so that the search index has the same order in each build
  rewrites: (page) => address(page),

  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark' },
    linkify: false,
    // By default, long lines lose colors on a busy machine.
    shikiSetup(highlighter) {
      const { codeToHtml } = highlighter
      highlighter.codeToHtml = (code, options) => codeToHtml(code, { ...options, tokenizeTimeLimit: 0 })
    },
    // Headings have the anchors that they have on GitHub.
    anchor: { slugify: (heading) => new GithubSlugger().slug(heading) },
    config(md) {
      md.core.ruler.push('repository-links', ({ tokens, env }) => {
        for (const token of tokens.flatMap((block) => block.children ?? [])) {
          if (token.type === 'link_open') {
            const page = relative(root, env.realPath ?? env.path)
            token.attrSet('href', target(token.attrGet('href'), page, version))
          }
        }
      })
    },
  },

  themeConfig: {
    version,
    siteTitle: 'Realmkeeper',
    logo: icon,
    nav: [
      { text: 'Docs', link: '/introduction', activeMatch: '^/(?!$|api-reference|changelog)' },
      { text: 'API reference', link: '/api-reference' },
      { text: 'Changelog', link: '/changelog' },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/blob/${version}/:path`, text: 'View this page on GitHub' },
    externalLinkIcon: true,
  },

  vite: {
    publicDir: false,
    plugins: [{
      // The pages are outside the directory that contains node_modules.
      name: 'vue-for-all-pages',
      enforce: 'pre',
      resolveId(name, importer, options) {
        return /^vue(\/|$)/.test(name) ? this.resolve(name, `${root}hack/site/index.md`, { ...options, skipSelf: true }) : undefined
      },
    }],
  },
})
