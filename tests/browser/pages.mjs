// Every page in light, dark, narrow and forced colours: it is served, complains about nothing, and passes axe.
import { axe, check, complaints, go, note, open, picture, scenario } from './browser.mjs';

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
    JSON.stringify(found.violations.map(({ id, impact, nodes }) =>
      ({ id, impact, count: nodes.length, first: nodes[0].target[0] }))))`;
  const { result, exceptionDetails } =
    await page.cdp.send('Runtime.evaluate', { expression: run, awaitPromise: true, returnByValue: true });
  check(!exceptionDetails, JSON.stringify(exceptionDetails));
  return JSON.parse(result.value);
}

/** Returns the faults of a page. */
async function faultsOf(page, status, looks) {
  const faults = await complaints(page);
  page.complaints.length = 0;
  if (status !== 200) faults.push(`status ${status}`);
  const isForced = await page.evaluate(() => matchMedia('(forced-colors: active)').matches);
  if (isForced !== Boolean(looks.forced)) faults.push('the colours are not those of the look');
  const [width, wanted] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
  if (wanted > width) faults.push(`${wanted} pixels are wider than the window`);
  return faults;
}

scenario(async browser => {
  const faults = [], remarks = new Map();
  for (const [look, looks] of Object.entries(LOOKS)) {
    const page = await open(browser, looks);
    for (const [name, path] of Object.entries(PAGES)) {
      const status = await go(page, path);
      await picture(page, `${name}-${look}`);
      for (const fault of await faultsOf(page, status, looks)) faults.push(`${path}, ${look}: ${fault}`);
      for (const { id, impact, count, first } of await violations(page)) {
        const text = `${impact} ${id}: ${count} elements, as ${first}`;
        if (['serious', 'critical'].includes(impact)) faults.push(`${path}, ${look}: ${text}`);
        else remarks.set(text, [...remarks.get(text) ?? [], `${name}-${look}`]);
      }
    }
    await page.close();
  }
  for (const [text, places] of remarks) note(`axe: ${text} (${places.join(', ')})`);
  check(faults.length === 0, faults.join('\n'));
});
