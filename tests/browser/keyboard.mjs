// Only the keyboard: from the overview to a section by the map. Updates of values move neither focus nor selection.
import { check, checkQuiet, go, note, openAt, scenario, text, until } from './browser.mjs';

/** Presses a key until a condition holds in the page. Returns the number of times. */
async function press(page, key, what, holds, most = 60) {
  for (let count = 1; count <= most; count++) {
    await page.keyboard.press(key);
    if (await page.evaluate(holds)) return count;
  }
  const focused = await page.evaluate(() => document.activeElement.outerHTML);
  throw new Error(`${what}: not after ${most} times ${key}; the focus is on ${focused}`);
}

/**
 * Presses a key, and waits until the map that it requested is drawn and a condition holds. The page counts its requests
 * in flight, and the key has begun its own before it returns.
 */
async function redraw(page, key, what, holds, ...given) {
  await page.keyboard.press(key);
  await until(page, `the map of ${key}`, () => loading === 0 && !canvas.classList.contains('muted'));
  await until(page, `${key} shows ${what}`, holds, ...given);
}

const cell = page => page.evaluate(() => document.getElementById('cell').textContent);

scenario(async browser => {
  const page = await openAt(browser, '/');
  await press(page, 'Tab', 'the first stop skips the navigation', () => document.activeElement.className === 'skip', 1);
  const isVisible = await page.evaluate(() => document.activeElement.getBoundingClientRect().left >= 0);
  check(isVisible, 'the link that skips the navigation is shown while it has the focus');
  await press(page, 'Tab', 'the map is in the navigation', () => document.activeElement.textContent === 'Section map');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check(outline !== 'none', 'the focus is visible');
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  await until(page, 'the map is drawn', () => window.updates?.length > 0 && performance.getEntriesByName('map').length > 0);

  const stops = await press(page, 'Tab', 'the map has the focus', () => document.activeElement.id === 'map');
  note(`the map has the focus after ${stops} times Tab`);
  await until(page, 'the map has rows', () => data?.rows > 0);
  // Cells and not only their texts: a column that ends between two keys moves the times by one cell.
  const places = [], cells = [];
  for (const key of ['Home', 'ArrowRight', 'ArrowDown', 'End', 'PageDown', 'ArrowLeft', 'ArrowUp']) {
    await page.keyboard.press(key);
    places.push(await cell(page));
    cells.push(await page.evaluate(() => at.join(',')));
  }
  note(`the map reads out: ${places.join(' | ')}`);
  check(new Set(cells).size === cells.length, `each key moves: ${cells.join(' | ')}`);
  check(places.every(place => /sections? [\d,.]+ · uids [\d,.]+ · /.test(place)), places.join(' | '));
  for (const [key, value] of [['s', 'total'], ['h', 'hottest']]) {
    await redraw(page, key, value, value =>
      document.querySelector(`[data-value=${value}]`).getAttribute('aria-pressed') === 'true', value);
  }
  check(await page.evaluate(() => document.activeElement.id === 'map'), 'the focus stays on the map');
  // Letters are for the map alone (WCAG 2.1.4): with the focus elsewhere they change nothing.
  await page.focus('#owner');
  await page.evaluate(() => document.activeElement.blur());
  for (const key of ['s', 'n', 't']) await page.keyboard.press(key);
  const pressed = await page.evaluate(() =>
    [...document.querySelectorAll('button[aria-pressed=true]')].map(button => button.dataset.value).join(' '));
  check(pressed === 'minutes numbers hottest', `a letter without the map changed the view: ${pressed}`);
  await page.focus('#map');

  // A row of the whole map has several sections: Enter zooms in.
  await redraw(page, 'Enter', 'a part', () => !document.getElementById('out').hidden);
  await redraw(page, 'Escape', 'all', () => document.getElementById('out').hidden);
  await redraw(page, 'Enter', 'a part', () => !document.getElementById('out').hidden);
  await page.keyboard.press('ArrowDown');
  const wanted = (await cell(page)).match(/ section ([\d,]+) · /)[1];
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  check((await text(page)).startsWith(`Section ${wanted}`), await text(page));
  await checkQuiet(page, 'the map and a section');

  // A command is copied by the keyboard, and the page says so.
  await go(page, '/section/0');
  await press(page, 'Tab', 'a command has the focus', () => document.activeElement.matches('code'));
  const command = await page.evaluate(() => document.activeElement.textContent);
  check(command.startsWith('seqsvr section show'), command);
  await page.keyboard.press('Enter');
  await until(page, 'the page says that the command was taken', () =>
    /copied|selected/.test(document.getElementById('said').textContent));
  const selected = await page.evaluate(() => String(getSelection()));
  check(selected === command, `${selected}, not ${command}`);

  // Focus, selection and scroll position stay where they are while values change. The window is small, so that a row
  // that disappears does not end the page before its scroll position.
  await page.setViewport({ width: 640, height: 400 });
  await go(page, '/');
  await press(page, 'Tab', 'a set has the focus', () => document.activeElement.closest('[data-region=sets]') !== null);
  await page.evaluate(() => {
    window.focused = document.activeElement;
    getSelection().selectAllChildren(document.querySelector('[data-region=sets] tr').children[2]);
    window.selected = String(getSelection());
    document.querySelector('.scroll').scrollLeft = 40;
    scrollTo(0, 30);
    window.scrolled = [document.querySelector('.scroll').scrollLeft, scrollY];
    window.before = updates.length;
  });
  await until(page, 'two updates', () => updates.length >= window.before + 2);
  const kept = await page.evaluate(() => ({
    focus: document.activeElement === window.focused && window.focused.isConnected,
    selection: window.selected !== '' && String(getSelection()) === window.selected,
    scroll: document.querySelector('.scroll').scrollLeft === window.scrolled[0] && scrollY === window.scrolled[1],
  }));
  check(kept.focus && kept.selection && kept.scroll, JSON.stringify(kept));
});
