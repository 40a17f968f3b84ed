// The section map: rows are neighbouring sections, columns are time, the lightness of a cell is a rate.
// No uid becomes a number of JavaScript, because it may be above 2^53: uids are BigInt.
'use strict';

const $ = id => document.getElementById(id);
const canvas = $('map'), pen = canvas.getContext('2d', { alpha: false });
const ALL = Number(canvas.dataset.sections), SIZE = BigInt(Number(canvas.dataset.size) || 1), START = BigInt(canvas.dataset.start);
const WIDTH_NOW = 256, NO_RECORD = 255, ROWS = 512;
// Lines of marks, and their height, which is enough for a finger.
const LINES = 4, LINE_PX = 24;
const choice = { span: 'minutes', layer: 'numbers', value: 'hottest' };
// Sections that are shown, the cell under the cursor (at first the newest one), and the levels.
let from = 0, to = ALL, at = [Infinity, 0], data = null, peak = 8, colours = null;

const dark = matchMedia('(prefers-color-scheme: dark)');
const forced = matchMedia('(forced-colors: active)');
// Lightness grows strictly with the value on a dark ground and falls on a light one, so the scale reads without hue.
const STOPS = {
  dark: [[24, 29, 38], [62, 24, 99], [130, 38, 112], [204, 64, 88], [243, 124, 66], [251, 196, 92], [253, 250, 190]],
  light: [[244, 246, 248], [205, 224, 240], [148, 193, 224], [72, 144, 199], [26, 98, 167], [10, 60, 124], [4, 24, 66]],
};
const pack = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;

function palette() {
  const stops = STOPS[dark.matches ? 'dark' : 'light'];
  colours = new Uint32Array(256);
  for (let level = 0; level < 63; level++) {
    const place = Math.min(1, level / peak) * (stops.length - 1), low = Math.min(stops.length - 2, Math.floor(place));
    colours[level] = pack(stops[low].map((value, k) => Math.round(value + (stops[low + 1][k] - value) * (place - low))));
  }
}

const utc = ms => new Date(ms).toISOString().slice(11, 19);
const group = number => number.toString().replace(/\B(?=(\d{3})+$)/g, ',');
// A level n is a rate near to 2^((n-1)/2) a minute.
function rate(level) {
  if (level === NO_RECORD) return 'no record';
  const aMinute = level === 0 ? 0 : 2 ** ((level - 1) / 2);
  if (data.layer === 'writes') return `about ${aMinute < 10 ? aMinute.toFixed(0) : group(Math.round(aMinute))} writes/min`;
  const aSecond = aMinute / 60;
  return `about ${aSecond === 0 ? '0' : aSecond < 10 ? aSecond.toFixed(1) : group(Math.round(aSecond))} numbers/s`;
}

async function fetchLevels() {
  // The choice may be another when the response arrives.
  const { span, layer, value } = choice;
  const query = new URLSearchParams({ span, layer, value, from, to, rows: ROWS, owner: $('owner').value });
  const response = await fetch(`/map/levels?${query}`, { cache: 'no-store' });
  if (response.status === 401) throw new Error('log in again');
  if (!response.ok) throw new Error(response.status === 503 ? await response.text() : `status ${response.status}`);
  const buffer = await response.arrayBuffer(), view = new DataView(buffer);
  const number = place => view.getUint32(4 * place, true);
  return {
    rows: number(0), columns: number(1), from: number(2), to: number(3), columnMs: number(4),
    since: Number(view.getBigUint64(20, true)), levels: new Uint8Array(buffer, 28), isNow: span === 'now', layer, value,
  };
}

// The scale ends where a cell of a thousand is above it, so that a few hot sections do not leave the rest dark.
function scale(levels) {
  const counts = new Uint32Array(63);
  let all = 0;
  for (const level of levels) if (level > 0 && level < 63) { counts[level]++; all++; }
  let level = 62;
  for (let above = 0; level > 8 && above + counts[level] <= all / 1000; level--) above += counts[level];
  if (level !== peak || !colours) { peak = level; palette(); }
}

const shape = () => data.isNow ? [Math.min(WIDTH_NOW, data.rows), Math.ceil(data.rows / WIDTH_NOW)] : [data.columns, data.rows];

function draw() {
  if (!data || data.rows === 0) {
    canvas.width = canvas.height = 1;
    pen.fillStyle = dark.matches ? '#0d1117' : '#fff';
    pen.fillRect(0, 0, 1, 1);
    $('cell').textContent = `No record yet: the first column ends within ${{ day: '15 minutes', hour: '30 seconds' }[choice.span] || '5 seconds'}.`;
    return;
  }
  scale(data.levels);
  const [columns, rows] = shape();
  // A cell without a record is hatched, so it has more than one pixel.
  const kx = data.isNow ? 4 : 8, ky = data.isNow ? 4 : Math.max(1, Math.ceil(256 / rows));
  const width = columns * kx, height = rows * ky;
  // A canvas that gets a size is made anew, also if the size is the same.
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const image = pen.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const ground = pack(dark.matches ? [13, 17, 23] : [255, 255, 255]), hatch = pack(dark.matches ? [48, 54, 61] : [208, 215, 222]);
  const cell = (x, y) => data.levels[data.isNow ? y * columns + x : x * rows + y];
  for (let y = 0; y < rows; y++) {
    // All lines of pixels of a row of cells are the same, except for hatches.
    const top = y * ky * width;
    for (let x = 0; x < columns; x++) {
      const level = cell(x, y), colour = level === undefined || level === NO_RECORD ? ground : colours[level];
      for (let i = 0; i < kx; i++) pixels[top + x * kx + i] = colour;
    }
    for (let j = 1; j < ky; j++) pixels.copyWithin(top + j * width, top, top + width);
    for (let x = 0; x < columns; x++) if (cell(x, y) === NO_RECORD) for (let j = 0; j < ky; j++) for (let i = 0; i < kx; i++) {
      if ((x * kx + i + y * ky + j) % 8 === 0) pixels[top + j * width + x * kx + i] = hatch;
    }
  }
  pen.putImageData(image, 0, 0);
  axes();
  legend();
  marks();
  describe();
}

function axes() {
  const label = (text, side, percent) => {
    const element = document.createElement('span');
    element.textContent = text;
    element.style[side] = `${percent}%`;
    return element;
  };
  const y = [], x = [];
  for (let part = 0; part <= 4; part++) y.push(label(group(START + BigInt(data.from) * SIZE + BigInt(data.to - data.from) * SIZE * BigInt(part) / 4n), 'top', 25 * part));
  if (!data.isNow) {
    // Times of the columns and not their ages, because the newest column may be old.
    const whole = data.columns * data.columnMs;
    for (let part = 0; part <= 4; part++) x.push(label(`${utc(data.since + whole * part / 4)}${part === 4 ? ' UTC' : ''}`, 'left', 25 * part));
  }
  $('axis-y').replaceChildren(...y);
  $('axis-x').replaceChildren(...x);
}

function legend() {
  const bar = document.createElement('canvas');
  bar.width = peak + 1;
  bar.height = 1;
  const brush = bar.getContext('2d'), image = brush.createImageData(peak + 1, 1);
  new Uint32Array(image.data.buffer).set(colours.subarray(0, peak + 1));
  brush.putImageData(image, 0, 0);
  bar.setAttribute('role', 'img');
  const most = rate(peak).replace('about ', '');
  bar.setAttribute('aria-label', `Scale from 0 to ${most}`);
  $('legend').replaceChildren('0', bar, `${most} and above`);
}

// Puts the events above the column of their time, within the width. Events that would overlap are in further lines. An
// event is at the right edge until the column of its time is closed.
function marks() {
  const box = $('marks-of-map'), width = box.clientWidth, lines = [[]];
  const shown = [...box.querySelectorAll('li')].filter(item => {
    const [name, time, text] = item.children, ms = Number(time.textContent);
    const part = data.isNow ? -1 : (ms - data.since) / (data.columns * data.columnMs);
    name.title = text.textContent;
    // The name begins with the text that is seen.
    name.firstElementChild?.setAttribute('aria-label', `${name.textContent}, ${utc(ms)} UTC, ${text.textContent}`);
    item.hidden = part < 0;
    item.style.left = `${100 * Math.min(1, part)}%`;
    return !item.hidden;
  });
  const places = shown.map(item => [item.offsetLeft, item.offsetWidth]);
  for (const [place, item] of shown.entries()) {
    const begin = Math.max(0, Math.min(places[place][0], width - places[place][1])), end = begin + places[place][1];
    let line = lines.findIndex(taken => taken.every(other => end < other.begin || other.end < begin));
    if (line < 0) line = lines.push([]) - 1;
    if (line >= LINES) { item.hidden = true; continue; }
    lines[line].push({ begin, end });
    item.style.left = `${begin}px`;
    item.style.top = `${LINE_PX * line}px`;
  }
  box.style.height = `${LINE_PX * Math.min(LINES, lines.length)}px`;
}

const perRow = () => (data.to - data.from) / data.rows;
function cellSections() {
  const [x, y] = at, row = data.isNow ? y * shape()[0] + x : y;
  const first = data.from + Math.floor(row * perRow());
  return [first, Math.max(first + 1, data.from + Math.floor((row + 1) * perRow()))];
}

function describe() {
  const [columns, rows] = shape(), [x, y] = at;
  const place = data.isNow ? y * columns + x : x * data.rows + y;
  const box = canvas.getBoundingClientRect(), cursor = $('cursor').style;
  cursor.left = `${x * box.width / columns - 1}px`;
  cursor.top = `${y * box.height / rows - 1}px`;
  cursor.width = `${Math.max(6, box.width / columns + 2)}px`;
  cursor.height = `${Math.max(6, box.height / rows + 2)}px`;
  if (place >= data.levels.length) return;
  const [first, end] = cellSections(), uids = `uids ${group(START + BigInt(first) * SIZE)}..${group(START + BigInt(end) * SIZE)}`;
  const which = end - first === 1 ? `section ${group(first)}` : `sections ${group(first)}..${group(end)}`;
  const when = data.isNow ? '' : `${utc(data.since + x * data.columnMs)} UTC · `;
  const of = end - first === 1 ? '' : data.value === 'total' ? 'together ' : 'the hottest ';
  $('cell').textContent = `${when}${which} · ${uids} · ${of}${rate(data.levels[place])}`;
}

function move(x, y) {
  if (!data || data.rows === 0) return;
  const [columns, rows] = shape();
  at = [Math.max(0, Math.min(columns - 1, x)), Math.max(0, Math.min(rows - 1, y))];
  describe();
}

// The newest request wins: a response to an older one is dropped.
let latest = 0, loading = 0;
async function load() {
  const mine = ++latest;
  loading++;
  try {
    const levels = await fetchLevels();
    if (mine !== latest) return;
    data = levels;
    if (data.rows > 0) { const [columns, rows] = shape(); at = [Math.min(at[0], columns - 1), Math.min(at[1], rows - 1)]; }
    draw();
    performance.mark('map');
    canvas.classList.remove('muted');
  } catch (error) {
    if (mine !== latest) return;
    canvas.classList.add('muted');
    $('cell').textContent = `The map could not be read: ${error.message}`;
  } finally {
    loading--;
  }
}

function zoom() {
  if (!data || data.rows === 0) return;
  const [first, end] = cellSections();
  if (end - first === 1) { location.href = `/section/${first}`; return; }
  const span = Math.max(Math.min(ROWS, to - from), Math.round((to - from) / 8)), middle = Math.floor((first + end) / 2);
  from = Math.max(0, Math.min(ALL - span, middle - (span >> 1)));
  to = from + span;
  $('out').hidden = false;
  load();
}

function reset() {
  from = 0;
  to = ALL;
  $('out').hidden = true;
  return load();
}

function press(button) {
  const { name, value } = button.dataset;
  choice[name] = value;
  for (const other of document.querySelectorAll(`button[data-name="${name}"]`)) other.setAttribute('aria-pressed', String(other === button));
  load();
}

for (const button of document.querySelectorAll('button[data-name]')) button.addEventListener('click', () => press(button));
$('owner').addEventListener('change', load);
$('out').addEventListener('click', reset);
$('find').addEventListener('change', async event => {
  const text = event.target.value.replace(/[ ,_]/g, '');
  if (!/^\d{1,20}$/.test(text)) { $('cell').textContent = 'A uid is a whole number.'; return; }
  const section = (BigInt(text) - START) / SIZE;
  if (BigInt(text) < START || section >= BigInt(ALL)) { $('cell').textContent = `Uid ${group(text)} is outside of the cluster.`; return; }
  if (!data || data.rows === 0) return;
  if (Number(section) < from || Number(section) >= to) {
    await reset();
  }
  const row = Math.floor((Number(section) - data.from) / perRow()), [columns] = shape();
  if (data.isNow) move(row % columns, Math.floor(row / columns)); else move(columns - 1, row);
});
const cellAt = event => {
  const box = canvas.getBoundingClientRect(), [columns, rows] = shape();
  return [Math.floor((event.clientX - box.left) / box.width * columns), Math.floor((event.clientY - box.top) / box.height * rows)];
};
canvas.addEventListener('mousemove', event => { if (data?.rows) move(...cellAt(event)); });
canvas.addEventListener('click', event => { if (data?.rows) { move(...cellAt(event)); zoom(); } });
canvas.addEventListener('keydown', event => {
  const [x, y] = at, by = event.shiftKey ? 20 : 1;
  const next = {
    ArrowLeft: [x - by, y], ArrowRight: [x + by, y], ArrowUp: [x, y - by], ArrowDown: [x, y + by],
    Home: [0, y], End: [1e9, y], PageUp: [x, y - 50], PageDown: [x, y + 50],
  }[event.key];
  if (next) move(...next);
  else if (event.key === 'Enter') zoom();
  else if (event.key === 'Escape') reset();
  else {
    // Single letters are for the map alone, because a person who speaks to the browser may cause them anywhere.
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const button = document.querySelector(`button[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (!button) return;
    button.click();
  }
  event.preventDefault();
});
for (const query of [dark, forced]) query.addEventListener('change', () => { colours = null; draw(); });
// The levels follow the observations of the page, at most one request in the time of half a column, and none while one is
// in flight: a slow response would always be dropped for the next.
const pause = () => Math.min(30000, (data?.columnMs || 5000) / 2);
let loaded = performance.now();
document.addEventListener('values', () => {
  // New events get their places at once.
  if (data?.rows) marks();
  if (loading > 0 || performance.now() < loaded + pause()) return;
  loaded = performance.now();
  load();
});
load();
