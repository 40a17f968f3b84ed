// Pages that load themselves again: a page of another console at the same address, and a page that has other parts now.
// Neither load cancels a click, and a page that is not left after all has all updates.
import { args, check, checkQuiet, complaints, go, note, open, openAt, rows, scenario, step, until } from './browser.mjs';

const sets = page => page.evaluate(() => [...document.querySelectorAll('[data-region=sets] tr')].map(row => row.dataset.key));

/** Shows a message to a page as its stream does. */
const send = (page, message) => page.evaluate(message => show({ data: JSON.stringify(message) }), message);

const empty = page => page.evaluate(() => ({ console: document.body.dataset.console, as_of: '', regions: {} }));

async function clickIsNotCancelled(browser) {
  const page = await openAt(browser, '/');
  await until(page, 'the page may load itself again', () => performance.now() > LEAST_RELOAD_MS);
  const other = { ...await empty(page), layout: ['other'] };
  const left = page.waitForNavigation();
  // The message arrives while the request of the next page is on its way.
  await page.evaluate(message => {
    document.querySelector('nav a[href="/nodes"]').click();
    show({ data: JSON.stringify(message) });
  }, other);
  await left;
  check(page.url().endsWith('/nodes'), `the click led to ${page.url()}`);
  await page.close();
}

/** Messages are differences, so a page that stays after all needs each of them. */
async function cancelledLeaveKeepsUpdates(browser) {
  const page = await openAt(browser, '/');
  await until(page, 'the page may load itself again', () => performance.now() > LEAST_RELOAD_MS);
  await page.evaluate(() => { window.isFirst = true; });
  const message = { ...await empty(page), layout: ['other'], regions: { sets: { order: [], rows: {} } } };
  // Within one task, so that no message of the stream comes between.
  const isShown = await page.evaluate(message => {
    dispatchEvent(new Event('beforeunload'));
    show({ data: JSON.stringify(message) });
    return !document.querySelector('[data-empty-of=sets]').hidden;
  }, message);
  check(isShown, 'an update is shown while the page is left');
  await send(page, { ...message, console: 'other' });
  const shown = await page.evaluate(() => updates.length);
  await until(page, 'a further update', shown => updates.length > shown, shown);
  check(await page.evaluate(() => window.isFirst), 'the page did not load itself again');
  await page.close();
}

async function pressHoldsUpdates(browser) {
  const page = await openAt(browser, '/');
  await until(page, 'the page may load itself again', () => performance.now() > LEAST_RELOAD_MS);
  const messages = await empty(page);
  const left = page.waitForNavigation();
  // Within one task, so that no time passes between the press and the click.
  const isKept = await page.evaluate(message => {
    const link = document.querySelector('[data-region=sets] a');
    const point = name => link.dispatchEvent(new PointerEvent(name, { bubbles: true }));
    const receive = change => show({ data: JSON.stringify({ ...message, ...change }) });
    point('pointerdown');
    receive({ regions: { sets: { order: [], rows: {} } } });
    receive({ layout: ['other'] });
    const isKept = link.isConnected;
    point('pointerup');
    link.click();
    return isKept;
  }, messages);
  check(isKept, 'the row stays under the pointer');
  await left;
  check(new URL(page.url()).pathname === '/nodes', `the click led to ${page.url()}`);
  // A press that does not end holds nothing back for long.
  await go(page, '/');
  await page.evaluate(message => {
    document.body.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true }));
    show({ data: JSON.stringify({ ...message, regions: { sets: { order: [], rows: {} } } }) });
  }, messages);
  await until(page, 'the update is shown', () => !document.querySelector('[data-empty-of=sets]').hidden);
  await page.close();
}

async function typedTextStays(browser) {
  const page = await openAt(browser, '/uid');
  await until(page, 'the page may load itself again', () => performance.now() > LEAST_RELOAD_MS);
  await page.evaluate(() => { window.isFirst = true; });
  await page.type('input[name=uid]', '70');
  await send(page, { ...await empty(page), layout: ['other'] });
  await send(page, { ...await empty(page), console: 'other' });
  check(await page.evaluate(() => window.isFirst && document.querySelector('input').value === '70'), 'the typed text stays');
  const said = await page.evaluate(() => document.getElementById('age').textContent);
  check(said.includes('another console'), said);
  const left = page.waitForNavigation();
  await page.evaluate(() => { document.querySelector('input').value = ''; });
  await send(page, { ...await empty(page), console: 'other' });
  await left;
  check(!await page.evaluate(() => window.isFirst), 'the page was loaded again');
  await page.close();
}

async function otherClusterIsShown(browser) {
  const page = await open(browser);
  const first = await page.goto(args.origin);
  // The first rendering has the age of its values, before any script has run.
  check(/id="age"[^>]*>as of \d\d:\d\d:\d\d UTC/.test(await first.text()), 'the age in the first rendering');
  await until(page, 'values', () => updates.length > 0);
  const before = await sets(page);
  await page.evaluate(() => { window.isFirst = true; });
  await step('one cluster');
  await until(page, 'the page is loaded again', () => !window.isFirst && window.updates?.length > 0);
  // A console that was just started learns of the second set after the first one.
  await until(page, 'the sets of the other cluster', before =>
    [...document.querySelectorAll('[data-region=sets] tr')].map(row => row.dataset.key).join() !== before, before.join());
  const after = await sets(page);
  note(`sets of the tab: ${before}, then ${after}`);
  check(Object.keys(await rows(page, 'sets')).length === after.length, 'no row of the first cluster is left');
  const others = (await complaints(page)).filter(text => !text.includes('Failed to load resource'));
  check(others.length === 0, others.join('\n'));
}

scenario(async browser => {
  await clickIsNotCancelled(browser);
  await cancelledLeaveKeepsUpdates(browser);
  await pressHoldsUpdates(browser);
  await typedTextStays(browser);
  await otherClusterIsShown(browser);
});
