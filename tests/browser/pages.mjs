// Every page in light, dark, narrow and forced colours: it is served, complains about nothing, and passes axe.
import { args, axe, check, checkQuiet, go, note, open, picture, scenario, until } from './browser.mjs';

const PAGES = {
  overview: '/', map: '/map', sections: '/sections', section: '/section/0', nodes: '/nodes', sets: '/sets',
  events: '/events', uid: '/uid?uid=7', config: '/config', runbook: '/runbook', 'runbook-sets': '/runbook/sets.md',
};
const LOOKS = {
  light: {}, dark: { scheme: 'dark' }, narrow: { width: 390, height: 844 }, forced: { forced: true },
};
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const source = axe();

/** Returns the violations that axe finds, each with its first place. */
async function violations(page) {
  await page.cdp.send('Runtime.evaluate', { expression: source });
  const run = `axe.run({ runOnly: ${JSON.stringify(RULES)}, resultTypes: ['violations'] }).then(found =>
    JSON.stringify(found.violations.map(({ id, impact, nodes }) => ({ id, impact, count: nodes.length, first: nodes[0].target[0] }))))`;
  const { result, exceptionDetails } =
    await page.cdp.send('Runtime.evaluate', { expression: run, awaitPromise: true, returnByValue: true });
  check(!exceptionDetails, JSON.stringify(exceptionDetails));
  return JSON.parse(result.value);
}

scenario(async browser => {
  const serious = [], others = new Map();
  for (const [look, looks] of Object.entries(LOOKS)) {
    const page = await open(browser, looks);
    for (const [name, path] of Object.entries(PAGES)) {
      const status = await go(page, path);
      check(status === 200, `${path}: ${status}`);
      if (looks.forced) {
        check(await page.evaluate(() => matchMedia('(forced-colors: active)').matches), 'colours are forced');
      }
      const [width, wanted] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
      check(wanted <= width, `${path}, ${look}: ${wanted} pixels are wider than the window`);
      await checkQuiet(page, `${path}, ${look}`);
      await picture(page, `${name}-${look}`);
      for (const { id, impact, count, first } of await violations(page)) {
        const text = `${impact} ${id}: ${count} elements, as ${first}`;
        if (['serious', 'critical'].includes(impact)) serious.push(`${path}, ${look}: ${text}`);
        else others.set(text, [...others.get(text) ?? [], `${name}-${look}`]);
      }
    }
    await page.close();
  }
  for (const [text, places] of others) note(`axe: ${text} (${places.join(', ')})`);
  check(serious.length === 0, serious.join('\n'));
});
