// The stream of values: it is cut and connects again without a gap or a second row, ends while the page is hidden, and
// seven pages have one at the same time.
import fs from 'node:fs';
import http from 'node:http';
import { pipeline } from 'node:stream';
import {
  args, check, checkQuiet, complaints, firstSeen, go, note, openAt, prepare, scenario, step, until,
} from './browser.mjs';

const port = Number(new URL(args.origin).port);

/** Returns the number of connections that the console has, of which one is of each stream. */
function connections() {
  const established = '01', local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const sockets = fs.readFileSync('/proc/net/tcp', 'utf8').split('\n').map(line => line.trim().split(/\s+/));
  return sockets.filter(([, from, , state]) => from?.endsWith(local) && state === established).length;
}

const updates = page => page.evaluate(() => window.updates.length);
const nextUpdate = async (page, what) => {
  const before = await updates(page);
  await until(page, what, before => window.updates.length > before, before);
};

/** Returns the keys of the rows of each region; it runs in the page. */
const keys = () => JSON.stringify([...document.querySelectorAll('[data-region]')]
  .map(region => [region.dataset.region, [...region.children].map(row => row.dataset.key)]));

/** Checks that the rows are those of a page that was opened just now, each once. */
async function checkRows(browser, page, path) {
  const fresh = await openAt(browser, path);
  for (let time = 1; ; time++) {
    await nextUpdate(page, 'an update');
    const [here, there] = [await page.evaluate(keys), await fresh.evaluate(keys)];
    for (const [region, list] of JSON.parse(here)) {
      check(new Set(list).size === list.length, `${region} has a row twice: ${list}`);
    }
    if (here === there) break;
    check(time < 20, `the rows differ from those of a new page:\n${here}\n${there}`);
  }
  await fresh.close();
}

/** A proxy between the browser and the console, whose connections can be cut. */
async function startProxy() {
  const sockets = new Set();
  const proxy = http.createServer((request, response) => {
    const { method, url, headers } = request;
    const onward = http.request(url, { method, headers, agent: false }, answer => {
      response.writeHead(answer.statusCode, answer.headers);
      pipeline(answer, response, () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    onward.end();
  });
  const state = { isCut: false, cut() { state.isCut = true; for (const socket of sockets) socket.destroy(); } };
  proxy.on('connection', socket => {
    if (state.isCut) { socket.destroy(); return; }
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise(resolve => proxy.listen(0, '127.0.0.1', resolve));
  state.server = `127.0.0.1:${proxy.address().port}`;
  return state;
}

async function isCutAndContinues(browser) {
  const proxy = await startProxy();
  const context = await browser.createBrowserContext({ proxyServer: proxy.server, proxyBypassList: ['<-loopback>'] });
  const page = await openAt(context, '/events');
  await nextUpdate(page, 'an update');
  proxy.cut();
  await until(page, 'the page says that it has no connection', () =>
    document.getElementById('age').textContent.startsWith('no connection'));
  await step('cut');
  proxy.isCut = false;
  await firstSeen(page, 'events', args.kind);
  await checkRows(browser, page, '/events');
  await until(page, 'its age is that of new values', () => document.getElementById('age').textContent.startsWith('as of'));

  // The console ends, and another one starts on its port. The page loads itself again, because it may be of another cluster.
  await page.evaluate(() => { window.isFirst = true; });
  await step('restart');
  await until(page, 'the page of the new console', () => !window.isFirst && window.updates?.length > 0);
  await checkRows(browser, page, '/events');
  const others = (await complaints(page)).filter(text => !text.includes('Failed to load resource'));
  check(others.length === 0, others.join('\n'));
  await context.close();
}

async function endsWhileHidden(browser) {
  const page = await openAt(browser, '/');
  await nextUpdate(page, 'an update');
  const before = connections();
  const begin = Date.now();
  // Another tab of the same window is shown.
  const other = await prepare(await browser.newPage());
  await until(page, 'the page is hidden', () => document.hidden);
  while (connections() >= before) {
    check(Date.now() - begin < 30_000, `the stream of a hidden page stays open: ${connections()} connections`);
    await new Promise(resolve => setTimeout(resolve, 10));
  }
  note(`the stream of a hidden page ends after ${Date.now() - begin} ms: ${before} connections, then ${connections()}`);
  const count = await updates(page);
  await other.close();
  await page.bringToFront();
  await until(page, 'a page that is shown again has values', count => window.updates.length > count, count);
  await checkQuiet(page, 'a page that was hidden');
  await page.close();
}

/** Opens seven pages, in windows or in tabs of one window. A browser has six connections to a host. */
async function sevenPages(browser, type) {
  const context = await browser.createBrowserContext();
  const pages = [];
  for (let place = 0; place < 7; place++) {
    const page = await prepare(await context.newPage({ type }));
    pages.push(page);
    await go(page, place % 2 ? '/nodes' : '/');
  }
  const hidden = await Promise.all(pages.map(page => page.evaluate(() => document.hidden)));
  note(`seven pages (${type}): ${hidden.filter(Boolean).length} of them hidden, ${connections()} connections`);
  for (const page of pages) {
    if (type === 'tab') await page.bringToFront();
    await nextUpdate(page, `each of seven pages (${type}) has values`);
  }
  for (const page of pages) await checkQuiet(page, 'one of seven pages');
  await context.close();
}

scenario(async browser => {
  await isCutAndContinues(browser);
  await endsWhileHidden(browser);
  await sevenPages(browser, 'tab');
  await sevenPages(browser, 'window');
});
