// Keeps the values of a page current by server-sent events, while the page is not hidden.
// A message has the changed rows of each region. Texts change in place, so focus, selection and scroll position stay.
'use strict';

const regions = new Map();
for (const element of document.querySelectorAll('[data-region]')) {
  const rows = new Map();
  for (const row of element.children) rows.set(row.dataset.key, row);
  regions.set(element.dataset.region, { element, rows, columns: element.dataset.columns || '' });
}

const SHAPES = { table: ['tr', 'td'], list: ['li', 'span'], line: ['span', 'span'] };
const SVG = 'http://www.w3.org/2000/svg';

// The element in which a cell of a kind has its content; null for plain text.
function inner(cell) {
  if (cell.k === 'spark') {
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('class', 'spark');
    svg.setAttribute('viewBox', '0 0 120 20');
    svg.setAttribute('aria-hidden', 'true');
    svg.append(document.createElementNS(SVG, 'path'));
    return svg;
  }
  if (!cell.t) return null;
  if (cell.k === 'command') {
    const code = document.createElement('code');
    code.setAttribute('role', 'button');
    code.tabIndex = 0;
    code.title = 'Copy';
    return code;
  }
  if (cell.k === 'strong') return document.createElement('b');
  return cell.h ? document.createElement('a') : null;
}

const kind = cell => cell.k === 'spark' ? 'svg' : !cell.t ? '' : cell.k === 'command' ? 'CODE' : cell.k === 'strong' ? 'B' : cell.h ? 'A' : '';

function fill(element, cell, isNumber) {
  const name = [isNumber ? 'r' : '', cell.c || ''].join(' ').trim();
  if (element.className !== name) element.className = name;
  let target = element.firstElementChild;
  if ((target ? target.tagName : '') !== kind(cell)) {
    target = inner(cell);
    element.replaceChildren(...(target ? [target] : []));
  }
  if (cell.k === 'spark') {
    target.firstElementChild.setAttribute('d', cell.t);
    return;
  }
  if (cell.h && target && target.getAttribute('href') !== cell.h) target.setAttribute('href', cell.h);
  const text = target || element;
  if (text.textContent !== cell.t) text.textContent = cell.t;
}

function update(id, change) {
  const region = regions.get(id);
  if (!region) return;
  const { element, rows, columns } = region;
  const [rowName, cellName] = SHAPES[element.dataset.shape];
  for (const [key, value] of Object.entries(change.rows)) {
    let row = rows.get(key);
    if (!row) {
      row = document.createElement(rowName);
      row.dataset.key = key;
      rows.set(key, row);
    }
    const name = value.c || '';
    if (row.className !== name) row.className = name;
    value.v.forEach((cell, place) => {
      let box = row.children[place];
      if (!box) row.append(box = document.createElement(cellName));
      fill(box, cell, columns[place] === 'r');
    });
    while (row.children.length > value.v.length) row.lastElementChild.remove();
  }
  if (!change.order) return;
  const wanted = new Set(change.order), focused = document.activeElement;
  for (const [key, row] of rows) if (!wanted.has(key)) { row.remove(); rows.delete(key); }
  let next = element.firstElementChild;
  for (const key of change.order) {
    const row = rows.get(key);
    // A row in its place is not moved, because it would lose the focus.
    if (row === next) next = next.nextElementSibling;
    else if (row.isConnected && element.moveBefore) element.moveBefore(row, next);
    else element.insertBefore(row, next);
  }
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  const empty = document.querySelector(`[data-empty-of="${CSS.escape(id)}"]`);
  if (empty) empty.hidden = change.order.length > 0;
}

const age = document.getElementById('age');
// When the values were measured, by the clock of this browser; null: no value yet.
let measured = age.dataset.ms ? Date.now() - age.dataset.ms : null, asOf = age.dataset.asOf, connected = true, isForeign = false;

function showAge() {
  const seconds = measured === null ? 0 : Math.max(0, Math.round((Date.now() - measured) / 1000));
  const isOld = seconds > 6;
  document.body.classList.toggle('old', isOld || !connected || isForeign);
  const ago = seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
  const text = isForeign ? 'another console is at this address: load the page again'
    : !connected ? `no connection to the console, values are ${ago} old`
    : measured === null ? 'no values yet' : `as of ${asOf} UTC${isOld ? `, ${ago} ago` : ''}`;
  if (age.textContent !== text) age.textContent = text;
}

// A browser has at most six connections to a host, for all of its windows. So pages have four streams together, and
// each stream has a lock. A page without a lock opens its stream for one message at a time.
const STREAMS = 4, PAUSE_MS = 2000, RETRY_MS = 5000, LEAST_RELOAD_MS = 1500;
let source = null, unlock = null, timer = 0;

// Takes the lock of a stream, if one is free, until `unlock` is called or the page ends.
async function lock() {
  for (let place = 0; place < STREAMS && !unlock; place++) {
    await new Promise(decided => navigator.locks?.request(`stream ${place}`, { ifAvailable: true }, taken => {
      decided();
      if (taken && !unlock) return new Promise(ended => { unlock = ended; });
    }) ?? decided());
  }
}

function end() {
  source?.close();
  unlock?.();
  clearTimeout(timer);
  source = unlock = null;
}

async function follow() {
  if (document.hidden) { end(); return; }
  if (source) return;
  const mine = source = new EventSource(document.body.dataset.live);
  mine.onopen = () => { connected = true; showAge(); };
  mine.onerror = () => {
    connected = false;
    showAge();
    // A browser connects again by itself, unless the console refused the stream or was not there.
    if (mine.readyState === EventSource.CLOSED && source === mine) { end(); timer = setTimeout(retry, RETRY_MS); }
  };
  mine.addEventListener('values', show);
  await lock();
  if (document.hidden) end();
}

// Opens the stream again. A browser that is no longer logged in loads the page, which tells how to log in.
async function retry() {
  const response = await fetch('/', { method: 'HEAD' }).catch(() => null);
  if (response?.status === 401) location.reload(); else follow();
}

// Returns whether the page has other regions than the message, as when the first node responds.
function isOther(layout) {
  const here = [...regions.keys(), ...(document.getElementById('stairs') ? ['stairs'] : [])];
  return layout.length !== here.length || layout.some(id => !here.includes(id));
}

// A press holds updates back until its click has happened, because the click would be lost if its row moved, or if the
// page loaded itself.
const MOST_HOLD_MS = 1000, held = [];
let pressed = 0;
function release() {
  pressed = 0;
  for (const message of held.splice(0)) apply(message);
}
addEventListener('pointerdown', event => {
  const mine = pressed = event.timeStamp;
  setTimeout(() => { if (pressed === mine) release(); }, MOST_HOLD_MS);
}, true);
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => setTimeout(release), true);

// When the page began to be left. To load it again would cancel the click that leads to another page. No event tells
// that the other page will not come, as after Escape.
const MOST_LEAVING_MS = 10000;
let left = -MOST_LEAVING_MS;
addEventListener('beforeunload', () => { left = performance.now(); });
addEventListener('pageshow', () => { left = -MOST_LEAVING_MS; });
const isLeaving = () => performance.now() - left < MOST_LEAVING_MS;

// Returns whether text was typed into a field, or a choice is open, and would be lost.
function isEdited() {
  const field = document.activeElement;
  return field?.tagName === 'SELECT' || field?.tagName === 'INPUT' && field.value !== field.defaultValue;
}

function show(event) {
  const message = JSON.parse(event.data);
  if (pressed) held.push(message); else apply(message);
}

function apply(message) {
  if (message.console !== document.body.dataset.console) {
    // Another console has the port now, maybe of another cluster.
    isForeign = true;
    showAge();
    if (!isLeaving() && !isEdited()) location.reload();
    return;
  }
  // Not at once after a load, so that a state that changes all the time does not load the page all the time.
  const mayReload = performance.now() > LEAST_RELOAD_MS && !isLeaving() && !isEdited();
  if (message.layout && isOther(message.layout) && mayReload) { location.reload(); return; }
  if (message.age_ms !== undefined) { measured = Date.now() - message.age_ms; asOf = message.as_of; }
  for (const [id, change] of Object.entries(message.regions)) update(id, change);
  if (message.staircase) document.dispatchEvent(new CustomEvent('staircase', { detail: message.staircase }));
  document.dispatchEvent(new CustomEvent('values', { detail: message }));
  connected = true;
  showAge();
  if (!unlock) { end(); timer = setTimeout(follow, PAUSE_MS); }
}
document.addEventListener('visibilitychange', follow);
setInterval(showAge, 1000);
follow();

// The chart of a section: new paths and labels.
document.addEventListener('staircase', event => {
  for (const [id, attributes] of Object.entries(event.detail)) {
    const element = document.getElementById(id);
    if (!element) continue;
    for (const [name, value] of Object.entries(attributes)) {
      if (name === 'text') element.textContent = value; else element.setAttribute(name, value);
    }
  }
});

// A click on a command selects the command, and copies it if the browser allows that. Enter and space do the same.
const said = document.getElementById('said');
let saying = 0;
function say(text) {
  said.textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => { said.textContent = ''; }, 4000);
}
function copy(code) {
  getSelection().selectAllChildren(code);
  const selected = () => say('selected, press Ctrl+C');
  navigator.clipboard ? navigator.clipboard.writeText(code.textContent).then(() => say('copied'), selected) : selected();
}
document.addEventListener('click', event => {
  const code = event.target.closest('code');
  // A text that was selected with the pointer stays selected.
  if (code && !(event.detail > 0 && String(getSelection()))) copy(code);
});
document.addEventListener('keydown', event => {
  if (!['Enter', ' '].includes(event.key) || !event.target.matches('code, pre')) return;
  event.preventDefault();
  copy(event.target);
});
