// Access: who may read the console, by raw requests and by the cookie of a browser that has logged in.
import http from 'node:http';
import { args, check, checkQuiet, go, open, picture, prepare, scenario, text, until } from './browser.mjs';

const POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'",
  "form-action 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
];
const HEADERS = {
  'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer', 'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin', 'x-frame-options': 'DENY',
};

/** Sends a request with exactly these headers. Returns the status, the headers and the body. */
function send(path, headers = {}, method = 'GET') {
  const { hostname, port } = new URL(args.origin);
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, path, method, headers, agent: false }, response => {
      let body = '';
      response.on('data', part => { body += part; });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
    });
    request.on('error', reject);
    request.end();
  });
}

/** Checks the status of a response, and the headers that every response has. */
async function expect(what, response, status, part = '') {
  const { status: given, headers, body } = await response;
  check(given === status, `${what}: ${given}, not ${status}: ${body.slice(0, 300)}`);
  check(body.includes(part), `${what}: no "${part}" in ${body.slice(0, 300)}`);
  for (const rule of POLICY) check(headers['content-security-policy']?.includes(rule), `${what}: no ${rule}`);
  for (const [name, value] of Object.entries(HEADERS)) check(headers[name] === value, `${what}: ${name}: ${headers[name]}`);
  check(/no-store|immutable/.test(headers['cache-control']), `${what}: cache-control: ${headers['cache-control']}`);
  check(headers['access-control-allow-origin'] === undefined, `${what}: other sites may read it`);
  return { headers, body };
}

/** Logs a browser in with the address that the console printed. Returns its header with the cookie. */
async function logIn(page) {
  const response = await page.goto(args.url);
  check(response.status() === 200, `the page after the login: ${response.status()}`);
  check(!page.url().includes('token'), `the token stays in the address: ${page.url()}`);
  const answer = await response.request().redirectChain()[0].response();
  check(answer.status() === 303, `the login: ${answer.status()}`);
  const [cookie, ...others] = await page.cookies();
  check(others.length === 0 && cookie.httpOnly && cookie.sameSite === 'Strict' && cookie.session, JSON.stringify(cookie));
  check(cookie.value.length === 64 && !args.url.includes(cookie.value), 'the cookie is not the token');
  check(await page.evaluate(() => document.cookie) === '', 'no script can read the cookie');
  return { cookie: `${cookie.name}=${cookie.value}` };
}

scenario(async browser => {
  const token = new URL(args.url).searchParams.get('token');
  const style = (await send('/')).body.match(/href="(\/assets\/[^"]*\.css)"/)[1];
  await expect('no cookie', send('/'), 401, 'not logged in');
  for (const path of ['/map', '/section/0', '/live?page=/', '/map/levels', '/runbook', '/nothing']) {
    await expect(`no cookie, ${path}`, send(path), 401, 'not logged in');
  }
  await expect('the style of the refusal', send(style), 200, 'body');
  await expect('a wrong token', send(`/login?token=${'0'.repeat(64)}`), 401);
  await expect('no token', send('/login'), 401);
  await expect('a preview of the address', send(`/login?token=${token}`, {}, 'HEAD'), 405);

  const page = await open(browser);
  const login = await logIn(page);
  await until(page, 'values', () => updates.length > 0);
  await expect('a used token', send(`/login?token=${token}`), 401);
  await expect('a used token, once more in its browser', send(`/login?token=${token}`, login), 303);
  await expect('the cookie', send('/', login), 200, args.identity);
  await expect('another cookie', send('/', { cookie: `${login.cookie.slice(0, -1)}x` }), 401);
  await expect('no page', send('/nothing', login), 404);
  await expect('a path out of the runbook', send('/runbook/../../etc/passwd', login), 404, 'there is no page');
  await expect('a file', send(style, login), 200);
  await expect('levels', send('/map/levels', login), 200);

  const { port } = new URL(args.origin);
  for (const host of ['example.org', `example.org:${port}`, '127.0.0.1', `127.0.0.1:${port}.example.org`, `[::1]:${port}`]) {
    await expect(`Host: ${host}`, send('/', { ...login, host }), 421);
    await expect(`Host: ${host}, login`, send(`/login?token=${token}`, { host }), 421);
    await expect(`Host: ${host}, style`, send(style, { host }), 421);
  }
  await expect('localhost', send('/', { ...login, host: `localhost:${port}` }), 200);
  for (const site of ['cross-site', 'same-site']) {
    await expect(`a page of another site: ${site}`, send('/', { ...login, 'sec-fetch-site': site }), 403);
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    await expect(method, send('/', login, method), 405);
    await expect(`${method} /login`, send(`/login?token=${token}`, {}, method), 405);
  }

  // A page of another origin of this machine: it can neither read the console, nor show it in a frame.
  const other = http.createServer((_, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(`<title>other</title><iframe src="${args.origin}/"></iframe>`);
  });
  await new Promise(resolve => other.listen(0, '127.0.0.1', resolve));
  // The browser that has the cookie, with its pages.
  const stranger = await prepare(await browser.newPage());
  await stranger.goto(`http://127.0.0.1:${other.address().port}/`);
  const read = await stranger.evaluate(url =>
    fetch(url, { credentials: 'include' }).then(() => 'read', () => 'refused'), args.origin);
  check(read === 'refused', `a page of another origin: ${read}`);
  const framed = stranger.frames().find(frame => frame !== stranger.mainFrame());
  check(!await framed.evaluate(() => document.body?.innerText.includes('Overview')), 'a frame shows the console');
  await stranger.close();
  other.close();

  await checkQuiet(page, 'the overview');
  for (const path of ['/map', '/sections', '/section/0', '/nodes', '/sets', '/events', '/uid?uid=7', '/config']) {
    check(await go(page, path) === 200, path);
    await checkQuiet(page, path);
  }
  const seen = await text(page);
  const isRefused = seen.includes('may not call');
  check(isRefused === args.identity.startsWith('viewer/'), `settings as ${args.identity}: ${seen}`);
  await picture(page, `config-${args.identity.split('/')[0]}`);
  if (isRefused) {
    const addr = await page.evaluate(() => document.querySelector('select[name=node]').options[1].value);
    await go(page, `/config?node=${encodeURIComponent(addr)}`);
    check((await text(page)).includes('may not call'), await text(page));
  }
  // A second browser has nothing of the first one.
  const context = await browser.createBrowserContext();
  const second = await prepare(await context.newPage());
  const response = await second.goto(args.origin);
  check(response.status() === 401, `a second browser: ${response.status()}`);
  check((await second.evaluate(() => document.body.innerText)).includes('not logged in'), 'it is told how to log in');
  await picture(second, 'not-logged-in');
});
