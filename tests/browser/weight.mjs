// Weights and times of pages in a cluster of 42,950 sections, of one set or of many. Only weights are limited, because other
// work may have the machine.
import { args, check, checkQuiet, note, open, picture, scenario, until } from './browser.mjs';

/** Most bytes of a first visit without headers, up to the first values and the drawn map, by the path of the page. */
const LIMITS = args.limits;
const SPEEDS = [['plain', 1], ['CPU 4x slower', 4]];

const median = values => values.sort((one, other) => one - other)[values.length >> 1];
const ms = value => `${value.toFixed(0)} ms`.padStart(8);

/** Visits a page with an empty cache. Returns its weight and times. */
async function visit(browser, path, cpu) {
  const page = await open(browser, { cpu });
  await page.setCacheEnabled(false);
  await page.cdp.send('Network.enable');
  let bytes = 0, requests = 0, ofDocument = null;
  page.cdp.on('Network.requestWillBeSent', event => {
    requests += 1;
    if (event.type === 'Document') ofDocument = event.requestId;
  });
  // The browser reports no received bytes of a document, so the page itself has its size.
  page.cdp.on('Network.dataReceived', event => { if (event.requestId !== ofDocument) bytes += event.encodedDataLength; });
  await page.goto(args.origin + path);
  const times = await until(page, 'values and a paint', () => {
    const first = name => performance.getEntriesByName(name)[0]?.startTime;
    const paint = first('first-contentful-paint'), map = document.getElementById('map') ? first('map') : 0;
    return updates.length > 0 && paint && map !== undefined && { paint, map, values: updates[0].at - performance.timeOrigin };
  });
  const document = await page.evaluate(() => performance.getEntriesByType('navigation')[0].encodedBodySize);
  check(document > 0, `${path} has a document`);
  await checkQuiet(page, path);
  return { page, bytes: bytes + document, requests, ...times };
}

scenario(async browser => {
  note('page   speed           bytes  requests  paint     map       values');
  for (const [path, limit] of Object.entries(LIMITS)) {
    for (const [name, cpu] of SPEEDS) {
      const seen = [];
      for (let time = 0; time < 3; time++) {
        const { page, ...figures } = await visit(browser, path, cpu);
        await page.close();
        seen.push(figures);
      }
      const of = figure => median(seen.map(one => one[figure]));
      note([path.padEnd(6), name.padEnd(14), String(of('bytes')).padStart(6), String(of('requests')).padStart(9),
        ms(of('paint')), ms(of('map')), ms(of('values'))].join(' '));
      check(of('bytes') <= limit, `${path} has ${of('bytes')} bytes, more than ${limit}`);
    }
  }
  for (const [name, cpu] of SPEEDS) {
    for (const path of Object.keys(LIMITS)) if (path !== '/map') await updates(browser, path, name, cpu);
    await draws(browser, name, cpu);
  }
  const { page } = await visit(browser, '/map', 1);
  await page.click('[data-value=now]');
  await until(page, 'the map of the present is drawn', () => document.getElementById('axis-x').childElementCount === 0);
  await picture(page, 'weight-map-now');
});

/** Measures the work of an update in which all values of a page change. */
async function updates(browser, path, name, cpu) {
  const { page } = await visit(browser, path, cpu);
  const cost = await page.evaluate(() => {
    const regions = {};
    for (const region of document.querySelectorAll('[data-region]')) {
      const rows = Object.fromEntries([...region.children].map(row => [row.dataset.key, {
        v: [...row.children].map(cell => ({ t: `${cell.textContent}.` })),
      }]));
      regions[region.dataset.region] = { rows };
    }
    const times = [];
    for (let round = 0; round < 20; round++) {
      const begin = performance.now();
      for (const [id, change] of Object.entries(regions)) update(id, change);
      document.body.getBoundingClientRect();
      times.push(performance.now() - begin);
      const changed = Object.values(regions).flatMap(({ rows }) => Object.values(rows)).flatMap(row => row.v);
      for (const cell of changed) cell.t += '.';
    }
    return times;
  });
  await page.close();
  note(`${name}: all values of ${path} change in ${median(cost).toFixed(1)} ms`);
}

/** Measures a fetch of the levels with a draw of the map, over time and with all sections of the present. */
async function draws(browser, name, cpu) {
  const { page } = await visit(browser, '/map', cpu);
  for (const span of ['hour', 'now']) {
    const times = await page.evaluate(async span => {
      choice.span = span;
      const times = { load: [], draw: [], cells: 0 };
      for (let round = 0; round < 10; round++) {
        const begin = performance.now();
        await load();
        times.load.push(performance.now() - begin);
        const drawn = performance.now();
        draw();
        times.draw.push(performance.now() - drawn);
      }
      return { ...times, cells: data.levels.length };
    }, span);
    note(`${name}: the map of ${times.cells} cells (${span}) is fetched and drawn in ${median(times.load).toFixed(1)} ms, of it `
      + `drawn in ${median(times.draw).toFixed(1)} ms`);
  }
  await page.close();
}
