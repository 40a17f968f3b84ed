// Starts Chromium for a scenario, records every complaint of its pages, and exchanges steps with the test that started
// the script: a line of JSON each, from the script on stdout and from the test on stdin.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(`${process.env.NODE_PATH}/`);
const puppeteer = require('puppeteer-core');

/** Parameters of the test: `origin` and `url` of the console, `out` for screenshots, and those of the scenario. */
export const args = JSON.parse(process.argv[2]);

/** Time within which a condition must hold, in milliseconds: far above what is needed. */
const LIMIT = 60_000;

const print = message => process.stdout.write(`${JSON.stringify(message)}\n`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Prints a line in the output of the test. */
export const note = text => print({ note: text });

/** Reports a step, and waits until the test has acted. Returns the values of the test. */
export async function step(name, values = {}) {
  print({ step: name, ...values });
  const { value, done } = await lines.next();
  if (done) throw new Error(`the test ended in step ${name}`);
  return JSON.parse(value);
}

/** Fails the scenario if a condition is false. */
export function check(holds, text) {
  if (!holds) throw new Error(text);
}

/** Plays a scenario in a new browser, and ends both. */
export async function scenario(play) {
  let browser;
  try {
    browser = await puppeteer.launch({
      executablePath: args.chromium,
      headless: true,
      // A browser whose pipe is closed ends, so it never outlives this script.
      pipe: true,
      userDataDir: args.profile,
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    });
    await play(browser);
  } catch (error) {
    print({ error: error.stack });
    process.exitCode = 1;
  }
  await browser?.close();
  process.exit();
}

/** Opens an empty page in a window of its own; pages in further tabs of a window would be hidden. */
export async function open(browser, looks = {}) {
  return prepare(await browser.newPage({ type: 'window' }), looks);
}

/** Works like `open`, with a path of the console, and waits for its first values. */
export async function openAt(browser, path, looks = {}) {
  const page = await open(browser, looks);
  await go(page, path);
  return page;
}

/** Lets a page record its complaints and all updates of its values, and gives it a size, colours and a speed. */
export async function prepare(page, { scheme = 'light', width = 1280, height = 900, forced = false, cpu = 1 } = {}) {
  page.cdp = await page.createCDPSession();
  page.complaints = [];
  page.on('console', message => page.complaints.push(`console ${message.type()}: ${message.text()}`));
  page.on('pageerror', error => page.complaints.push(`error: ${error.stack ?? error}`));
  await page.setViewport({ width, height });
  const features = [{ name: 'prefers-color-scheme', value: scheme }];
  if (forced) features.push({ name: 'forced-colors', value: 'active' });
  await page.cdp.send('Emulation.setEmulatedMedia', { features });
  if (cpu > 1) await page.cdp.send('Emulation.setCPUThrottlingRate', { rate: cpu });
  await page.evaluateOnNewDocument(() => {
    window.violations = [];
    window.updates = [];
    const violated = event => violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    document.addEventListener('securitypolicyviolation', violated);
    const now = () => performance.timeOrigin + performance.now();
    document.addEventListener('values', event => updates.push({ at: now(), ...event.detail }));
  });
  return page;
}

/** Leads a page to a path, and waits for its first values and its map. Returns the status of the response. */
export async function go(page, path) {
  // A page that loads itself again at this moment cancels the request.
  let response = null;
  while (!response) {
    response = await page.goto(args.origin + path).catch(error => {
      if (!error.message.includes('ERR_ABORTED')) throw error;
    });
  }
  await until(page, `${path} has values`, () => {
    const isDrawn = !document.getElementById('map') || performance.getEntriesByName('map').length > 0;
    return updates.length > 0 && isDrawn;
  });
  return response.status();
}

/** Returns all complaints of a page so far. */
export async function complaints(page) {
  return [...page.complaints, ...await page.evaluate(() => window.violations ?? [])];
}

/** Fails the scenario if a page has complained. */
export async function checkQuiet(page, what) {
  const all = await complaints(page);
  check(all.length === 0, `${what}: ${all.join('\n')}`);
}

/**
 * Evaluates a function in a page until it returns a value that counts as true, and returns the value. The function is asked
 * of whole documents alone: a page that loads itself again has none of its elements until it is parsed. The arguments of
 * the function are values of JSON.
 */
export async function until(page, what, holds, ...given) {
  const begin = Date.now();
  const asked = `document.readyState !== 'loading' && (${holds})(${given.map(value => JSON.stringify(value))})`;
  for (;;) {
    // A page that is left while it evaluates, or loads itself again, is asked again.
    const value = await page.evaluate(asked).catch(error => {
      if (!/context|navigat|detached/i.test(error.message)) throw error;
    });
    if (value) return value;
    if (Date.now() - begin > LIMIT) {
      const text = await page.evaluate(() => document.body?.innerText);
      throw new Error(`not within ${LIMIT / 1000} s: ${what}\n${page.url()}\n${text}\n${(await complaints(page)).join('\n')}`);
    }
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

/** Waits until a row of a region has had a text. Returns the time of the update that brought it, in ms since 1970. */
export function firstSeen(page, region, text) {
  return until(page, `a row of ${region} has "${text}"`, (region, text) => {
    const rows = update => Object.values(update.regions[region]?.rows ?? {});
    const has = row => row.v.some(cell => cell.t.includes(text));
    return updates.find(update => rows(update).some(has))?.at;
  }, region, text);
}

/** Returns the rows of a region as the page shows them: the texts of the cells by the key of the row. */
export function rows(page, region) {
  return until(page, `region ${region}`, region => {
    const element = document.querySelector(`[data-region="${region}"]`);
    return element && Object.fromEntries([...element.children].map(row =>
      [row.dataset.key, [...row.children].map(cell => cell.textContent)]));
  }, region);
}

/** Saves a picture of a page. */
export async function picture(page, name, isWhole = true) {
  await page.screenshot({ path: `${args.out}/${name}.png`, fullPage: isWhole });
}

/** Returns the text of the main part of a page. */
export const text = page => until(page, 'a main part', () => document.querySelector('main')?.innerText);

/** Returns the source of axe-core. It runs by the debugging protocol, so the policy of the page stays in force. */
export const axe = () => fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
