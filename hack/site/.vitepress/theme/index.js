import DefaultTheme from 'vitepress/theme'
import { h } from 'vue'
import Landing from './Landing.vue'
import VersionMenu from './VersionMenu.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, {
    'nav-bar-content-after': () => h(VersionMenu),
    'nav-screen-content-after': () => h(VersionMenu),
  }),
  enhanceApp({ app }) {
    app.component('Landing', Landing)
  },
}
