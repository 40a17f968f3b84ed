// Addresses with markup, paths out of the pages and long texts: each is a page with the text, or is not found.
import { args, check, checkQuiet, complaints, open, scenario } from './browser.mjs';

const TAG = '<b id=injected>';
const PAYLOADS = [
  `"><script>window.injected = 1</script>${TAG}`,
  `'"><img src=x onerror="window.injected = 1">${TAG}`,
  `</select></title></textarea>${TAG}`,
  `javascript:window.injected=1//${TAG}`,
  `&lt;b id=injected&gt;\u0000\u001b[31m\u202e${TAG}`,
];
const PAGES = ['/?x=', '/map?x=', '/sections?by=', '/nodes?set=', '/sets?x=', '/uid?uid=', '/config?node=', '/runbook?x='];
const FILTERS = ['set', 'kind', 'node', 'section'];
const FOUND = [
  ...PAGES, ...FILTERS.map(name => `/events?${name}=`),
].flatMap(path => PAYLOADS.map(payload => path + encodeURIComponent(payload)));
const SENTENCE = [
  ['/section/99999999', 200], ['/uid?uid=99999999999999999999999', 200], ['/uid?uid=-1', 200],
  [`/uid?uid=${'7'.repeat(10_000)}`, 200], [`/events?set=${encodeURIComponent('<'.repeat(3_000))}`, 200],
  [`/nodes?set=${'a'.repeat(10_000)}`, 200], ['/uid?uid=%', 200], ['/uid?uid=%ff%fe', 200], ['/uid?uid=7&uid=8', 200],
];
const MISSING = [
  '/section/99999999999', '/section/..%2f0', '/section/0/', '/runbook/../../etc/passwd', '/runbook/%2e%2e/%2e%2e/etc/passwd',
  '/runbook/..%2f..%2fetc%2fpasswd', '/runbook//etc/passwd', '/runbook/sets.md%00', '/assets/../Cargo.toml',
  `/${'a'.repeat(10_000)}`, `/${encodeURIComponent(TAG)}`, '//example.org/', '/Events', '/live?page=/nothing',
  `/runbook/${encodeURIComponent(PAYLOADS[0])}`,
];

scenario(async browser => {
  const page = await open(browser);
  const visit = async (path, wanted) => {
    page.complaints.length = 0;
    const response = await page.goto(args.origin + path);
    const what = path.slice(0, 120);
    check(response.status() === wanted, `${what}: ${response.status()}, not ${wanted}`);
    const { injected, scripts, handlers, body } = await page.evaluate(() => ({
      injected: document.getElementById('injected') !== null || window.injected !== undefined,
      scripts: [...document.scripts].map(script => script.getAttribute('src')),
      handlers: [...document.querySelectorAll('*')].flatMap(one => one.getAttributeNames())
        .filter(name => name.startsWith('on')).length,
      body: document.body.innerText,
    }));
    check(!injected && handlers === 0, `${what}: markup was injected`);
    check(scripts.every(src => /^\/assets\/[0-9a-f]{16}\/(live|map)\.js$/.test(src)), `${what}: ${scripts}`);
    check(body.trim().length > 0, `${what}: an empty page`);
    return body;
  };
  for (const path of FOUND) {
    await visit(path, 200);
    await checkQuiet(page, path);
  }
  for (const [path, status] of SENTENCE) {
    await visit(path, status);
    await checkQuiet(page, path.slice(0, 120));
  }
  for (const path of MISSING) {
    const body = await visit(path, 404);
    check(body.includes('there is no page at this address'), `${path.slice(0, 120)}: ${body}`);
    // The browser itself notes a response that is not 200.
    const others = (await complaints(page)).filter(text => !text.includes('status of 404'));
    check(others.length === 0, `${path.slice(0, 120)}: ${others.join('\n')}`);
  }
});
