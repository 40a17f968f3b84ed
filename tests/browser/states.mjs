// A console before any node, and a store without a majority.
import { check, checkQuiet, go, note, openAt, picture, rows, scenario, step, text, until } from './browser.mjs';

const state = page => page.evaluate(() => document.querySelector('[data-region=state]').textContent);

scenario(async browser => {
  const page = await openAt(browser, '/');
  check((await state(page)).includes('no node responds'), await state(page));
  check((await text(page)).includes('as soon as a node responds'), await text(page));
  await picture(page, 'states-no-node');
  for (const path of ['/map', '/sections', '/section/0', '/nodes', '/sets', '/events', '/uid?uid=7', '/config', '/runbook']) {
    check(await go(page, path) === 200, path);
    check((await state(page)).includes('no node responds'), `${path}: ${await state(page)}`);
    await checkQuiet(page, path);
  }
  await go(page, '/');

  await step('no node');
  await until(page, 'the header has a state', () => document.querySelector('[data-region=state]').textContent.includes('● ok'));
  await until(page, 'the page has loaded itself again, with the set', () => document.querySelector('[data-region=sets] tr'));
  await checkQuiet(page, 'the overview');

  const { killed } = await step('all nodes');
  await until(page, 'the header says that there is no majority', () =>
    document.querySelector('[data-region=state]').textContent.includes('no quorum'));
  const at = await page.evaluate(killed =>
    updates.find(update => update.at > killed && JSON.stringify(update.regions.state ?? '').includes('no quorum'))?.at, killed);
  if (at) note(`no quorum is in the header ${(at - killed).toFixed(0)} ms after the end of two members`);
  const list = await rows(page, 'attention');
  check(Object.values(list).flat().some(text => /no quorum|majority/i.test(text)), JSON.stringify(list));
  await picture(page, 'states-no-quorum');
  const nodes = await openAt(browser, '/nodes');
  check(Object.keys(await rows(nodes, 'silent')).length >= 2, JSON.stringify(await rows(nodes, 'silent')));
  await picture(nodes, 'states-no-quorum-nodes');
  await checkQuiet(nodes, 'nodes');

  await step('one store');
  await until(page, 'the header counts the sections without any store', () =>
    /no quorum0 of 100 sections/.test(document.querySelector('[data-region=state]').textContent)
      && document.querySelector('[data-region=attention]').textContent.includes('no store responds'));
  await checkQuiet(page, 'the overview');
  await go(nodes, '/map');
  await until(nodes, 'the map has the record of the allocators', () =>
    /uids [\d,]+\.\.[\d,]+ · /.test(document.getElementById('cell').textContent));
  await checkQuiet(nodes, 'the map');
});
