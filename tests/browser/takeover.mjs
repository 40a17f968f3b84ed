// An allocator is killed: its takeover is on every page that shows it, with the update after the event.
import {
  args, check, checkQuiet, firstSeen, go, note, openAt, picture, rows, scenario, step, text, until,
} from './browser.mjs';

scenario(async browser => {
  const { node, section, uid } = args;
  const overview = await openAt(browser, '/');
  const events = await openAt(browser, '/events');
  const nodes = await openAt(browser, '/nodes');
  const taken = await openAt(browser, `/section/${section}`);
  // More pages than streams of a browser.
  const map = await openAt(browser, '/map');
  const pages = { overview, events, nodes, taken, map };
  const lost = `no response of allocator ${node}`;
  check(!(await text(overview)).includes(lost), `${node} responds`);
  check((await rows(taken, 'facts')).owner[1].startsWith(node), `section ${section} is owned by ${node}`);
  await picture(overview, 'takeover-before');

  const { killed } = await step('ready');
  const attention = await firstSeen(overview, 'attention', lost);
  await picture(overview, 'takeover-during');
  note(`"${lost}" is on the overview ${(attention - killed).toFixed(0)} ms after its end`);
  const list = await rows(overview, 'attention');
  check(Object.values(list).flat().some(text => text.startsWith('seqsvr ')), `no command: ${JSON.stringify(list)}`);

  const seen = {
    'table of events': await firstSeen(events, 'events', 'takeover'),
    overview: await firstSeen(overview, 'events', 'takeover'),
    'page of a section': await firstSeen(taken, 'events', 'takeover'),
    'marks of the map': await firstSeen(map, 'marks', 'takeover'),
  };
  const event = Object.values(await rows(events, 'events')).find(([, , , kind]) => kind === 'takeover');
  check(event[4].includes(node), event.join(' '));
  // The marks of the map have the milliseconds of their events.
  const at = Number(Object.values(await rows(map, 'marks')).find(([kind]) => kind.includes('takeover'))[1]);
  check(Math.floor(at / 1_000) * 1_000 === Date.parse(event[0]), `${at} is not ${event[0]}`);
  note(`the takeover is an event ${at - killed} ms after the end of ${node}: ${event[4]}`);
  for (const [place, time] of Object.entries(seen)) note(`${place}: ${(time - at).toFixed(0)} ms after the event`);

  await firstSeen(nodes, 'silent', node);
  const silent = Object.values(await rows(nodes, 'silent')).find(([name]) => name === node);
  check(silent[3].includes('✕'), silent.join(' '));
  await until(taken, 'the section has another owner', node => {
    const owner = document.querySelector('[data-region=facts] [data-key=owner]');
    return !owner.textContent.includes(node);
  }, node);
  await until(taken, 'the section has a jump because of the takeover', () =>
    /at most .* because of a takeover/.test(document.querySelector('[data-region=facts] [data-key=skipped]')?.textContent));

  await go(nodes, `/uid?uid=${uid}`);
  await until(nodes, 'the last number is a bound', () =>
    /at most [\d,]+: the owner before was lost/.test(document.querySelector('[data-key=number]')?.textContent));
  check(Object.values(await rows(nodes, 'events')).some(([, , , kind]) => kind === 'takeover'), await text(nodes));
  await picture(nodes, 'takeover-uid');
  for (const [name, page] of Object.entries(pages)) {
    await checkQuiet(page, name);
    if (page !== nodes) await picture(page, `takeover-after-${name}`);
  }
  await until(map, 'the mark is shown', () =>
    document.querySelector('[data-region=marks] a[href*=takeover]')?.offsetParent);
});
