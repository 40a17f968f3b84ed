// A migration between two sets: its row appears, moves and goes, and its events are listed.
import { check, checkQuiet, firstSeen, note, openAt, picture, rows, scenario, step, until } from './browser.mjs';

scenario(async browser => {
  const sets = await openAt(browser, '/sets');
  const events = await openAt(browser, '/events');
  check(Object.keys(await rows(sets, 'migrations')).length === 0, 'no migration is open');
  await picture(sets, 'migration-before');

  const { begun } = await step('ready');
  const first = await firstSeen(sets, 'migrations', 'im-b');
  note(`the migration is on the page ${(first - begun).toFixed(0)} ms after the start of the command`);
  await firstSeen(events, 'events', 'migration_started');
  await until(sets, 'some sections have arrived', () => {
    const row = document.querySelector('[data-region=migrations] tr');
    const [done, all] = row?.children[5].textContent.split('/').map(Number) ?? [];
    return done > 0 && done < all;
  });
  await picture(sets, 'migration-during');
  await until(sets, 'all sections have arrived', () =>
    document.querySelector('[data-region=migrations] tr')?.children[3].textContent === 'arrived');
  await picture(sets, 'migration-arrived');

  // Each update of the row: sections that arrived, and the bar.
  const steps = await sets.evaluate(() => updates.flatMap(update => Object.values(update.regions.migrations?.rows ?? {}))
    .map(row => [row.v[5].t, row.v[4].t]));
  note(`updates of the row: ${steps.map(([done, bar]) => `${done} ${bar}`).join(', ')}`);
  const done = steps.map(([done]) => Number(done.split('/')[0]));
  check(done.every((value, place) => place === 0 || done[place - 1] <= value), `it never goes back: ${done}`);
  check(new Set(steps.map(([, bar]) => bar)).size >= 3, 'the bar moves');

  await step('arrived', { id: await sets.evaluate(() => document.querySelector('[data-region=migrations] a').textContent) });
  await until(sets, 'the row is gone', () => !document.querySelector('[data-empty-of=migrations]').hidden);
  check(Object.keys(await rows(sets, 'migrations')).length === 0, 'no row is left');
  await firstSeen(events, 'events', 'migration_completed');
  await picture(sets, 'migration-after');
  await picture(events, 'migration-after-events');
  await checkQuiet(sets, 'sets');
  await checkQuiet(events, 'events');
});
