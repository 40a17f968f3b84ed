// Numbers above 2^53: each page shows all digits, from the first rendering and from updates.
import { args, check, checkQuiet, go, note, openAt, picture, rows, scenario, step, text, until } from './browser.mjs';

const group = digits => digits.replace(/\B(?=(\d{3})+$)/g, ',');

scenario(async browser => {
  const { uid, section } = args;
  let { number } = args;
  check(BigInt(number) > 1n << 60n && BigInt(Number(number)) !== BigInt(number), `${number} is not exact as a double`);
  const page = await openAt(browser, `/uid?uid=${uid}`);
  const shown = async () => (await rows(page, 'facts')).number[1];
  check(await shown() === `${group(number)} (exact)`, `${await shown()}, not ${group(number)}`);
  // An update of the open page.
  ({ number } = await step('next'));
  await until(page, 'the next number', wanted =>
    document.querySelector('[data-key=number]').children[1].textContent === wanted, `${group(number)} (exact)`);
  await picture(page, 'numbers-uid');

  await go(page, `/section/${section}`);
  // So many numbers that the present owner raises the ceiling.
  ({ number } = await step('raise'));
  await until(page, 'the label of the chart has the number, and a raise is listed', wanted =>
    document.getElementById('chart-label')?.getAttribute('aria-label').includes(wanted)
      && document.querySelector('[data-region=raises] tr'), `highest number ${group(number)}`);
  const facts = await rows(page, 'facts');
  const { skipped } = facts;
  check(skipped?.[1].includes('because of a restore of the set from a backup'), `the cause of the jump: ${skipped}`);
  check(facts['highest number'][1] === group(number), `${facts['highest number']}, not ${group(number)}`);
  const ceiling = facts['ceiling at the store'][1];
  check(BigInt(ceiling.replaceAll(',', '')) > BigInt(number), ceiling);
  const chart = await page.evaluate(() => ({
    label: document.getElementById('chart-label').getAttribute('aria-label'),
    high: document.getElementById('chart-high').textContent, low: document.getElementById('chart-low').textContent,
    stairs: document.getElementById('stairs').getAttribute('d'),
  }));
  check(chart.label.includes(`Ceiling ${ceiling}`) && chart.label.includes(group(number)), chart.label);
  const [high, low] = [chart.high, chart.low].map(label => BigInt(label.replaceAll(',', '')));
  check(low < BigInt(number) && BigInt(number) < high, `${chart.low} .. ${chart.high}`);
  const raises = Object.values(await rows(page, 'raises'));
  const isExact = ([, , from, to, distance]) =>
    BigInt(to.replaceAll(',', '')) - BigInt(from.replaceAll(',', '')) === BigInt(distance.replaceAll(',', ''));
  check(raises.length > 0 && raises.every(isExact), JSON.stringify(raises));
  check(raises[0][3] === ceiling, `${raises[0]}, ceiling ${ceiling}`);
  note(`ceiling ${ceiling}, raise ${raises[0].join(' ')}, chart ${chart.low} .. ${chart.high}`);

  await picture(page, 'numbers-section');
  await go(page, '/sections');
  check(!/e\+\d|NaN|Infinity/.test(await text(page)), await text(page));
  await checkQuiet(page, 'numbers');
});
