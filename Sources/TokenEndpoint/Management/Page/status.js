'use strict';
// Asks /status.json at a bounded pace and draws what it says. Whatever comes from there gets into the page as text alone, and a number only
// if it is one: anything else is shown as "–". Counters are told apart from one another by their differences between two answers.
(() => {
  const PACE = 2000, LONGEST_PAUSE = 10000, TIMEOUT = 5000; // milliseconds
  const GAP = 15000; // Longer between two answers, and what happened there is in no chart.
  const HOUR = 3600000, MINUTE = 60000, BINS = 60, TABLE_ROWS = 12, MOST_ROWS = 20;
  const $ = id => document.getElementById(id);
  const num = x => typeof x === 'number' && Number.isFinite(x) ? x : null;
  const obj = x => x !== null && typeof x === 'object' && !Array.isArray(x) ? x : {};
  const arr = x => Array.isArray(x) ? x : [];
  const list = x => arr(x).map(obj);
  const str = x => typeof x !== 'string' ? '–' : x.length > 200 ? x.slice(0, 200) + '…' : x;

  // Elements

  const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const set = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };
  function add(parent, tag, attributes = {}, text) {
    const svg = tag === 'svg' || parent instanceof SVGElement;
    const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }
  /// As many children as items, old ones kept: focus and a reader's place stay where they are.
  function fill(parent, items, tag, each) {
    while (parent.childElementCount > items.length) parent.lastElementChild.remove();
    items.forEach((item, i) => each(parent.children[i] ?? add(parent, tag), item));
  }

  // Numbers as text

  const count = n => num(n) === null ? '–' : Math.abs(n) < 1e15 ? Math.round(n).toLocaleString('en') : n.toExponential(1);
  const rate = n => num(n) === null ? '–' : n >= 100 ? count(n) : String(+n.toFixed(n >= 10 ? 1 : 2));
  function took(s) {
    if (s === Infinity) return 'over 10 s';
    if (num(s) === null) return '–';
    return s < 0.01 ? +(s * 1000).toFixed(1) + ' ms' : s < 1 ? Math.round(s * 1000) + ' ms' : +s.toFixed(2) + ' s';
  }
  function age(s) {
    if (num(s) === null) return '–';
    s = Math.max(0, Math.round(s));
    const two = (big, name, small, other) => Math.floor(s / big) + name + (Math.floor(s % big / small) ? ' ' + Math.floor(s % big / small) + other : '');
    return s < 60 ? s + ' s' : s < 3600 ? two(60, ' min', 1, ' s') : s < 86400 ? two(3600, ' h', 60, ' min') : two(86400, ' d', 3600, ' h');
  }
  const of = (n, most) => count(n) + ' of ' + count(most);
  const clock = ms => new Date(ms).toLocaleTimeString('en-GB');

  // Answers of the process, and what happened between them

  let last = null; // the newest answer: {data, at, counters}
  let steps = []; // {at, dt, d: Map of differences, g: gauges}; of an hour
  let restarts = [];
  let wait = PACE; // until the next question

  /// Every counter of an answer, by a name of ours.
  function counters(s) {
    const all = new Map(), bump = (key, n) => all.set(key, (all.get(key) ?? 0) + Math.max(0, num(n) ?? 0));
    for (const a of list(s.answers)) {
      if (a.code === 'ok') { if (a.method === 'POST') bump('minted', a.total); continue; }
      bump(a.status >= 500 ? 'failed' : 'refused', a.total);
      bump('code ' + str(a.code), a.total);
    }
    const mints = obj(s.mints), january = obj(s.january), connections = obj(s.connections);
    for (const a of list(january.answers)) {
      bump(a.code === 'ok' ? 'jok' : num(a.status) !== null && a.status < 500 ? 'jrefused' : 'jfailed', a.total);
      bump('j ' + [a.operation, a.status, a.code].join(' '), a.total);
    }
    arr(obj(mints.seconds).counts).forEach((n, i) => bump('t' + i, n));
    arr(obj(january.seconds).counts).forEach((n, i) => bump('u' + i, n));
    for (const v of list(s.sessions)) bump('s ' + JSON.stringify([v.verifier, v.verdict, v.reason]), v.total);
    for (const l of list(obj(s.limits).rules)) bump('l ' + str(l.limit), l.refused_total);
    bump('overloaded', mints.overloaded_total);
    bump('undelivered', mints.undelivered_total);
    bump('closed', connections.refused_total);
    bump('reloads', obj(s.reloads).failed_total);
    return all;
  }

  function accept(data) {
    const at = Date.now(), now = counters(data), before = last;
    last = { data, at, counters: now };
    if (!before) return;
    const began = before.data.started_at !== data.started_at || num(data.uptime_seconds) < num(before.data.uptime_seconds);
    if (began) restarts = [...restarts.slice(-9), at];
    const dt = at - before.at;
    // A clock that was set back: what was noted would lie in the future.
    if (dt < 0) steps = [];
    if (began || dt > GAP + 2 * wait || dt <= 0) return;
    const d = new Map();
    for (const [key, n] of now) {
      const more = n - (before.counters.get(key) ?? 0);
      if (more > 0) d.set(key, more);
    }
    steps.push({
      at, dt, d, g: {
        pending: num(obj(data.state).revocations_pending), open: num(obj(data.connections).open),
        flight: num(obj(data.mints).in_flight),
      },
    });
    while (steps.length && steps[0].at < at - HOUR) steps.shift();
  }

  /// What happened in the last milliseconds.
  function sum(milliseconds, now = Date.now()) {
    const total = { dt: 0, d: new Map(), n: key => total.d.get(key) ?? 0, rate: key => total.dt ? total.n(key) * 1000 / total.dt : null };
    for (let i = steps.length - 1; i >= 0 && steps[i].at > now - milliseconds; i--) {
      total.dt += steps[i].dt;
      for (const [key, n] of steps[i].d) total.d.set(key, total.n(key) + n);
    }
    return total;
  }

  /// In bins of equal length, aligned to the clock, so that a curve does not change its shape as it moves.
  function inBins(minutes, now) {
    const width = minutes * MINUTE / BINS, end = Math.ceil(now / width) * width, start = end - BINS * width;
    const bins = Array.from({ length: BINS }, (_, i) => ({ at: start + (i + 1) * width, dt: 0, d: new Map(), g: {} }));
    for (const step of steps) {
      const bin = bins[Math.ceil((step.at - start) / width) - 1];
      if (!bin) continue;
      bin.dt += step.dt;
      for (const [key, n] of step.d) bin.d.set(key, (bin.d.get(key) ?? 0) + n);
      for (const key in step.g) if (step.g[key] !== null) bin.g[key] = Math.max(step.g[key], bin.g[key] ?? 0);
    }
    return { bins, start, end, minutes };
  }

  /// By linear interpolation inside of a bucket, as Prometheus does. null: nothing was measured. Infinity: above the last bound.
  function quantile(q, bounds, n) {
    const counts = [...bounds, 0].map((_, i) => n(i)), all = counts.reduce((a, b) => a + b, 0);
    if (!all) return null;
    let below = 0;
    for (let i = 0; i < bounds.length; i++) {
      if (counts[i] && below + counts[i] >= q * all) {
        const lower = i ? bounds[i - 1] : 0;
        return num(lower + (bounds[i] - lower) * (q * all - below) / counts[i]);
      }
      below += counts[i];
    }
    return Infinity;
  }
  const bounds = s => arr(obj(s).up_to).map(b => num(b) ?? Infinity);
  const quantileOf = (part, prefix, q, d) =>
    quantile(q, bounds(obj(last && last.data[part]).seconds), i => d.get(prefix + i) ?? 0);

  // Charts

  const perSecond = key => bin => bin.dt ? (bin.d.get(key) ?? 0) * 1000 / bin.dt : null;
  const percentile = (part, prefix, q) => bin => quantileOf(part, prefix, q, bin.d);
  const gauge = key => bin => bin.g[key] ?? null;
  const charts = {
    mints: { unit: rate, series: [['minted', perSecond('minted')], ['refused, 4xx', perSecond('refused')], ['failed, 5xx', perSecond('failed')]] },
    took: { unit: took, series: [[ 'median', percentile('mints', 't', .5)], ['95 %', percentile('mints', 't', .95)], ['99 %', percentile('mints', 't', .99)]] },
    january: { unit: rate, series: [['good', perSecond('jok')], ['refused, 4xx', perSecond('jrefused')], ['5xx or none', perSecond('jfailed')]] },
    jtook: { unit: took, series: [['median', percentile('january', 'u', .5)], ['95 %', percentile('january', 'u', .95)], ['99 %', percentile('january', 'u', .99)]] },
    pending: { unit: count, series: [['pending', gauge('pending')]] },
    load: { unit: count, series: [['connections', gauge('open')], ['mints in flight', gauge('flight')]] },
  };
  for (const figure of document.querySelectorAll('[data-chart]')) {
    const chart = charts[figure.dataset.chart];
    const title = figure.parentElement.querySelector('h2');
    set(figure, 'aria-labelledby', title.id);
    Object.assign(chart, { title: title.textContent, pick: null });
    const legend = add(figure, 'ul', { class: 'legend' });
    chart.values = chart.series.map(([name], i) => {
      const item = add(legend, 'li');
      const swatch = add(item, 'svg', { viewBox: '0 0 22 8', 'aria-hidden': 'true' });
      add(swatch, 'path', { d: 'M1 4H21', class: 's s' + i });
      item.append(name + ' ');
      return add(item, 'b', {}, '–');
    });
    chart.when = add(legend, 'li', { class: 'at' });
    chart.svg = add(figure, 'svg', { role: 'img', 'aria-label': chart.title });
    const details = add(figure, 'details');
    add(add(details, 'summary', {}, 'As a table'), 'span', { class: 'unseen' }, ': ' + chart.title);
    const table = add(add(details, 'div', { class: 'scroll' }), 'table');
    add(table, 'caption', {}, chart.title + ', newest first');
    const head = add(add(table, 'thead'), 'tr');
    for (const name of ['until', ...chart.series.map(s => s[0])]) add(head, 'th', { scope: 'col' }, name);
    chart.body = add(table, 'tbody');
    chart.details = details;
    details.addEventListener('toggle', render);
    chart.svg.addEventListener('pointermove', e => {
      const box = chart.svg.getBoundingClientRect();
      chart.pick = Math.floor((e.clientX - box.left - LEFT) / (box.width - LEFT) * BINS);
      draw(chart);
    });
    chart.svg.addEventListener('pointerleave', () => { chart.pick = null; draw(chart); });
  }

  const LEFT = 44;
  let shown = null; // what the charts show: inBins(…)

  /// The next number above whose half is short, too.
  function roundUp(x) {
    const power = 10 ** Math.floor(Math.log10(x));
    return [1, 2, 3, 4, 6, 8, 10].map(f => f * power).find(t => t >= x * .999) ?? 10 * power;
  }

  function draw(chart) {
    if (!shown) return;
    const { bins, start, end, minutes } = shown, { svg, unit } = chart;
    const box = svg.getBoundingClientRect(), width = box.width || 320, height = box.height || 118, bottom = height - 16, top = 8;
    const rows = chart.series.map(([, value]) => bins.map(value));
    const seen = rows.flat().filter(v => v !== null && v !== Infinity);
    const isTime = unit === took;
    const most = rows.flat().includes(Infinity) ? 10 : roundUp(Math.max(isTime ? .001 : 1, ...seen));
    const x = i => LEFT + (i + 1) * (width - LEFT) / BINS, y = v => bottom - Math.min(v, most) / most * (bottom - top);
    svg.replaceChildren();
    set(svg, 'viewBox', `0 0 ${width} ${height}`);
    for (const part of unit === count && most % 2 ? [0, 1] : [0, .5, 1]) {
      add(svg, 'path', { class: 'grid', d: `M${LEFT} ${y(part * most)}H${width}` });
      add(svg, 'text', { x: LEFT - 5, y: y(part * most) + 4, 'text-anchor': 'end' }, part ? unit(part * most) : '0');
    }
    add(svg, 'text', { x: LEFT, y: height - 2 }, `−${minutes} min`);
    add(svg, 'text', { x: width, y: height - 2, 'text-anchor': 'end' }, clock(end));
    for (const at of restarts) {
      if (at < start || at > end) continue;
      const left = LEFT + (at - start) / (end - start) * (width - LEFT);
      add(svg, 'path', { class: 'mark', d: `M${left} ${top}V${bottom}` });
      add(svg, 'text', { x: left - 3, y: top + 8, 'text-anchor': 'end' }, 'restart');
    }
    rows.forEach((row, s) => {
      // A line along the axis says no more than its legend.
      if (s && !row.some(v => v)) return;
      let line = '', area = '', from = null;
      row.forEach((v, i) => {
        if (v === null) return;
        const alone = (row[i - 1] ?? null) === null;
        line += `${alone ? 'M' : 'L'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
        if (alone) { line += 'h.1'; from = x(i); area += `M${from.toFixed(1)} ${bottom}`; }
        area += `L${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
        if ((row[i + 1] ?? null) === null) area += `V${bottom}Z`;
      });
      if (s === 0) add(svg, 'path', { class: 'area', d: area });
      add(svg, 'path', { class: 's s' + s, d: line });
    });
    // The newest bin that has anything; the last one has often just begun.
    const newest = [BINS - 1, BINS - 2].find(i => bins[i].dt) ?? BINS - 1;
    const picked = chart.pick !== null && bins[chart.pick] ? chart.pick : null;
    if (picked !== null) add(svg, 'path', { class: 'mark', d: `M${x(picked)} ${top}V${bottom}` });
    rows.forEach((row, s) => put(chart.values[s], unit(row[picked ?? newest])));
    put(chart.when, picked === null ? '' : 'at ' + clock(bins[picked].at));
    set(svg, 'aria-label', `${chart.title}, last ${minutes} minutes: ` + chart.series.map(([name], s) => {
      const values = rows[s].filter(v => v !== null);
      return values.length ? `${name} now ${unit(rows[s][newest])}, at most ${unit(Math.max(...values))}` : `${name} nothing yet`;
    }).join('; '));
    if (chart.details.open) {
      const lines = bins.map((bin, i) => [clock(bin.at), ...rows.map(row => unit(row[i]))]).slice(-TABLE_ROWS).reverse();
      fillRows(chart.body, lines.map(cells => ({ cells })));
    }
  }

  // Tables

  function fillRows(body, rows) {
    fill(body, rows, 'tr', (tr, row) => {
      tr.className = row.mark ?? '';
      row.cells.forEach((text, i) => {
        const cell = tr.children[i] ?? (i ? add(tr, 'td') : add(tr, 'th', { scope: 'row' }));
        // Names come from outside; each keeps its own direction of writing.
        if (!i) set(cell, 'dir', 'auto');
        put(cell, text);
      });
    });
  }
  const tables = {};
  for (const [name, caption, ...heads] of [
    ['codes', 'Requests that got no token, most in the charts’ time first', 'code', 'shown', 'since start'],
    ['answers', 'Where it says “none”, no answer came', 'operation, status, code', 'shown', 'since start'],
    ['sessions', 'Verdicts, refusals first', 'verifier, verdict', 'shown', 'since start'],
    ['keys', 'Failing ones first, then the oldest', 'name', 'keys', 'age', 'last used', 'usable for'],
    ['limits', 'Refused by each limit', 'limit', 'shown', 'since start', 'last'],
  ]) {
    const place = document.querySelector(`[data-table=${name}]`);
    const table = add(add(place, 'div', { class: 'scroll' }), 'table');
    add(table, 'caption', {}, caption);
    const head = add(add(table, 'thead'), 'tr');
    const columns = heads.map(text => add(head, 'th', { scope: 'col' }, text));
    tables[name] = { body: add(table, 'tbody'), rest: add(place, 'p'), shown: columns[heads.indexOf('shown')] };
  }
  function tabulate(name, rows, empty, minutes) {
    const { body, rest, shown } = tables[name];
    fillRows(body, rows.slice(0, MOST_ROWS));
    const more = rows.length - MOST_ROWS;
    put(rest, !rows.length ? empty : more > 0 ? `… and ${count(more)} more, see status.json.` : '');
    if (shown) put(shown, `${minutes} min`);
  }
  const facts = (id, rows) => fill($(id), rows.flatMap(([name, value]) => [['dt', name], ['dd', value]]), 'dt', (node, [tag, value]) => {
    if (node.localName !== tag) { const other = document.createElement(tag); node.replaceWith(other); node = other; }
    if (!Array.isArray(value)) return put(node, value);
    // How much of how much: as text, and as a bar.
    const [n, most, name] = value;
    const bar = node.querySelector('meter') ?? (node.replaceChildren(), add(node, 'span'), add(node, 'meter', { min: '0', 'aria-label': name }));
    put(node.firstChild, of(n, most));
    Object.assign(bar, { max: Math.max(1, num(most) ?? 1), value: num(n) ?? 0, high: .8 * (num(most) ?? 1), optimum: 0 });
  });

  // What somebody should look at

  const HELD = {
    key: 'January rejects the API key', forbidden: 'January forbids minting: client tokens are off, or the key is for another API version',
    quota: 'the account’s month is used up', unreachable: 'January cannot be reached', unavailable: 'January fails or answers nonsense',
    rate_limited: 'January limits this account',
  };

  function problems(s, minute) {
    const found = [], bad = (key, text) => found.push({ key, mark: 'bad', text }), warn = (key, text) => found.push({ key, mark: 'warn', text });
    const january = obj(s.january), state = obj(s.state), limits = obj(s.limits), mints = obj(s.mints), connections = obj(s.connections);
    const reasons = arr(s.reasons).map(str);
    if (s.status === 'draining') warn('draining', `Draining: the process ends in ${age(s.drain_ends_in_seconds)} at most.`);
    if (s.status === 'starting') warn('starting', `Not ready, waits for ${reasons.slice(0, 5).join(', ') || 'its state'}${reasons.length > 5 ? ' …' : ''}.`);
    for (const reason of arr(january.held_back_for).map(str)) bad('held ' + reason, `Mints are held back: ${HELD[reason] ?? reason}.`);
    if (num(january.security_events_total) > 0) bad('security', `January answered ${count(january.security_events_total)} × with a token for somebody else or with other scopes. None was delivered.`);
    const slot = obj(january.api_key).slot;
    if (typeof slot === 'string' && slot !== 'first') warn('key', `The API key of slot “${slot}” is in use: January rejected the first one.`);
    const failing = list(s.key_sets).filter(k => num(k.failing_seconds) !== null);
    for (const k of failing.slice(0, 3)) {
      const rest = num(k.age_seconds) === null ? 'There are no keys: its sessions are answered 503.' : `Keys of ${age(k.age_seconds)} ago are in use.`;
      (num(k.age_seconds) === null ? bad : warn)('keys ' + str(k.name), `Key set ${str(k.name)} cannot be loaded since ${age(k.failing_seconds)}. ${rest}`);
    }
    if (failing.length > 3) bad('keys …', `${count(failing.length - 3)} more key sets cannot be loaded.`);
    if (state.writable === false) bad('state', `The state (${str(state.store)}) cannot be used: revocations are not taken.`);
    if (num(state.oldest_pending_seconds) > 60) bad('pending', `${count(state.revocations_pending)} revocations are pending, the oldest since ${age(state.oldest_pending_seconds)}.`);
    if (limits.degraded === true) warn('limits', 'Redis fails: this process counts its limits alone.');
    if (limits.mode === 'shadow') warn('shadow', 'Limits count and refuse nobody (shadow mode).');
    const failed = minute.n('failed'), all = failed + minute.n('minted') + minute.n('refused');
    if (failed) (failed > all / 20 ? bad : warn)('failed', `${count(failed)} of ${count(all)} requests failed in the last minute: ${top(minute)}.`);
    if (minute.n('overloaded')) bad('overloaded', `${count(minute.n('overloaded'))} refused in the last minute because too much was waiting.`);
    if (minute.n('closed')) warn('closed', `${count(minute.n('closed'))} connections closed in the last minute before they had a request.`);
    if (minute.n('reloads')) warn('reloads', 'A reload was refused in the last minute; the old configuration stays.');
    for (const [key, name, part, n] of [['open', 'connections', connections, 'open'], ['flight', 'mints in flight', mints, 'in_flight']])
      if (num(part.most) && num(part[n]) >= .9 * part.most) warn(key, `${of(part[n], part.most)} ${name}.`);
    const restart = restarts.at(-1);
    if (restart && Date.now() - restart < 10 * MINUTE) warn('restart', `The process restarted before ${clock(restart)}; its counters began anew.`);
    return found;
  }
  const top = minute => [...minute.d].filter(([key]) => key.startsWith('code ') && (codes.get(key.slice(5)) ?? 0) >= 500)
    .sort((a, b) => b[1] - a[1]).slice(0, 3).map(([key, n]) => `${key.slice(5)} ${count(n)}`).join(', ');
  let codes = new Map();

  // The whole page

  function render() {
    if (!last) return;
    const s = last.data, now = Date.now(), minutes = +$('window').value;
    const january = obj(s.january), mints = obj(s.mints), connections = obj(s.connections), state = obj(s.state), limits = obj(s.limits);
    shown = inBins(minutes, now);
    const within = sum(minutes * MINUTE, now), minute = sum(MINUTE, last.at);
    for (const name in charts) draw(charts[name]);

    const p = q => took(quantileOf('mints', 't', q, minute.d));
    fill($('tiles'), [
      ['minted', rate(minute.rate('minted')), 'a second'], ['refused', rate(minute.rate('refused')), 'a second, 4xx'],
      ['failed', rate(minute.rate('failed')), 'a second, 5xx'], ['a mint takes', p(.5), 'median; 99 %: ' + p(.99)],
      ['mints in flight', count(mints.in_flight), 'of ' + count(mints.most)], ['connections', count(connections.open), 'of ' + count(connections.most)],
      ['pending revocations', count(state.revocations_pending), num(state.oldest_pending_seconds) === null ? 'none waits' : 'oldest ' + age(state.oldest_pending_seconds)],
      ['API key in use', str(obj(january.api_key).slot), str(obj(january.api_key).fingerprint)],
    ], 'div', (div, [name, value, note]) => {
      const [dt, dd] = div.childElementCount ? div.children : [add(div, 'dt'), add(div, 'dd')];
      const [big, small] = dd.childElementCount ? dd.children : [add(dd, 'span'), add(dd, 'small')];
      put(dt, name), put(big, value), put(small, note);
    });

    // Tables
    codes = new Map(list(s.answers).filter(a => a.code !== 'ok').map(a => [str(a.code), num(a.status)]));
    tabulate('codes', [...codes].map(([code, status]) => ({
      cells: [`${status ?? '–'} ${code}`, count(within.n('code ' + code)), count(last.counters.get('code ' + code))],
      mark: within.n('code ' + code) && status >= 500 ? 'bad' : '', n: within.n('code ' + code), all: last.counters.get('code ' + code),
    })).sort(byCount), 'Nothing was refused since the start.', minutes);
    tabulate('answers', list(january.answers).map(a => {
      const key = 'j ' + [a.operation, a.status, a.code].join(' '), n = within.n(key);
      return { cells: [[a.operation, a.status ?? 'none', a.code].map(x => num(x) ?? str(x)).join(' '), count(n), count(a.total)], mark: n && a.code !== 'ok' ? 'warn' : '', n, all: num(a.total) };
    }).sort(byCount), 'January was not asked yet.', minutes);
    tabulate('sessions', list(s.sessions).map(v => {
      const n = within.n('s ' + JSON.stringify([v.verifier, v.verdict, v.reason]));
      const good = v.verdict === 'accepted', why = str(v.reason);
      return {
        cells: [`${str(v.verifier)}: ${str(v.verdict)}${good || why === '–' || !why ? '' : ', ' + why}`, count(n), count(v.total)],
        mark: n && v.verdict === 'unavailable' ? 'bad' : '', n, all: num(v.total), good,
      };
    }).sort((a, b) => a.good - b.good || byCount(a, b)), 'No session was looked at yet.', minutes);
    tabulate('keys', list(s.key_sets).map(k => ({
      cells: [str(k.name), count(k.keys), age(k.age_seconds), num(k.last_used_seconds) === null ? 'not yet' : age(k.last_used_seconds) + ' ago', age(k.usable_seconds)],
      mark: num(k.failing_seconds) === null ? '' : num(k.age_seconds) === null ? 'bad' : 'warn', failing: num(k.failing_seconds) ?? -1, age: num(k.age_seconds) ?? Infinity,
    })).sort((a, b) => b.failing - a.failing || b.age - a.age), 'No verifier loads keys.', minutes);
    tabulate('limits', list(limits.rules).map(l => {
      const refused = obj(l.last_refused);
      return {
        cells: [`${str(l.limit)}: ${count(l.requests)} in ${age(l.per_seconds)}, burst ${count(l.burst)}`, count(within.n('l ' + str(l.limit))),
          count(l.refused_total), num(refused.seconds_ago) === null ? 'never' : age(refused.seconds_ago) + ' ago'],
        mark: within.n('l ' + str(l.limit)) ? 'warn' : '',
      };
    }), 'No limit is on.', minutes);

    // Facts
    const jc = obj(january.connections);
    facts('load', [
      ['connections', [connections.open, connections.most, 'connections of clients']], ['mints in flight', [mints.in_flight, mints.most, 'mints in flight']],
      ['to January', [(num(jc.leased) ?? 0) + (num(jc.connecting) ?? 0), jc.most, 'connections to January in use']],
      ['idle to January', count(jc.idle)], ['waiting for one', count(mints.waiting)],
      ['limit cells', [limits.cells, limits.most_cells, 'cells of rate limits in memory']],
    ]);
    facts('state-facts', [
      ['store', str(state.store) + (state.writable === false ? ', cannot be used' : '')], ['oldest', num(state.oldest_pending_seconds) === null ? 'none' : age(state.oldest_pending_seconds)],
      ['blocked people', count(state.fences)],
    ]);
    facts('process', [
      ['status', str(s.status) + (num(s.drain_ends_in_seconds) === null ? '' : `, ends in ${age(s.drain_ends_in_seconds)} at most`)],
      ['up', age(s.uptime_seconds)], ['since', str(s.started_at)], ['version', str(s.version)], ['loops', count(s.loops)],
      ['API key', `${str(obj(january.api_key).slot)}, fingerprint ${str(obj(january.api_key).fingerprint)}`],
      ['held back for', arr(january.held_back_for).map(str).join(', ') || 'nothing'],
      ['limits', `${str(limits.store)}, ${str(limits.mode)}${limits.degraded === true ? ', degraded' : ''}`],
      ['reloads', `${count(obj(s.reloads).ok_total)} taken, ${count(obj(s.reloads).failed_total)} refused`],
      ['undelivered tokens', count(mints.undelivered_total)],
    ]);

    const found = problems(s, minute);
    const calm = { mark: 'none', text: 'Nothing needs attention.' };
    fill($('problems'), found.length ? found : [calm], 'li', (li, p) => {
      li.className = p.mark;
      put(li.firstElementChild ?? add(li, 'b'), p.mark === 'bad' ? 'Problem:' : p.mark === 'warn' ? 'Note:' : 'OK');
      put(li.children[1] ?? add(li, 'span'), p.text);
    });
    mood(str(s.status), found);
  }
  const byCount = (a, b) => b.n - a.n || b.all - a.all;

  // State of the page: live, paused, or without an answer

  let misses = 0, trouble = '', lostWord = '', paused = false, announced = '';

  function mood(status, found) {
    const lost = misses > 0, bad = lost || found.some(p => p.mark === 'bad'), warn = paused || status !== 'ready' || found.length > 0;
    const word = lost ? lostWord : status;
    put($('status'), word);
    $('status').className = 'pill ' + (bad ? 'bad' : warn ? 'warn' : 'ok');
    document.title = `${bad ? '✖ ' : warn ? '! ' : ''}${word} – ${location.host} – January Token Endpoint`;
    const color = bad ? 'c0392b' : warn ? 'd08a00' : '2e9e57';
    set($('icon'), 'href', `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='4' fill='%23${color}'/%3E%3C/svg%3E`);
    // Said once for each change: not with every number that moves.
    const key = [word, paused, ...found.map(p => p.key)].join('|');
    if (key !== announced) {
      announced = key;
      put($('news'), `${word}${paused ? ', paused' : ''}. ` + (lost ? '' : found.length ? found.map(p => p.text).join(' ') : 'Nothing needs attention.'));
    }
    tell();
  }
  function tell() {
    const since = last ? Date.now() - last.at : 0, late = since > wait + TIMEOUT;
    document.body.classList.toggle('stale', misses > 0 || paused || late);
    put($('link'), !last ? 'asking …' : paused ? `paused, numbers of ${clock(last.at)}` : `${misses || late ? 'last answer' : 'live,'} ${age(since / 1000)} ago`);
    $('alarm').hidden = misses === 0;
    if (misses) put($('alarm'), `${trouble}${last ? ` What is shown is of ${clock(last.at)} and not live.` : ''}`);
  }
  function missed(text, word) {
    misses += 1;
    trouble = text;
    lostWord = word;
    if (last) return render();
    mood(word, []);
  }

  // Asking

  const source = new URL('status.json', location.origin + location.pathname);
  let timer, asking = false, refused = false;

  async function ask() {
    clearTimeout(timer);
    if (asking || paused || refused || document.hidden) return;
    asking = true;
    const began = performance.now(), abort = new AbortController(), limit = setTimeout(() => abort.abort(), TIMEOUT);
    let data = null, text = 'The process cannot be reached.', word = 'no answer';
    try {
      const response = await fetch(source, { cache: 'no-store', redirect: 'error', signal: abort.signal, headers: { 'X-Requested-With': 'XMLHttpRequest' } });
      if (response.ok) data = await response.json();
      else if (response.status === 401 || response.status === 403) {
        // Nothing changes by asking again, and each wrong token is counted against this address.
        refused = true;
        text = `The management token is not accepted (${response.status}). Load this page again.`;
      } else if (response.status === 503) [text, word] = ['The process starts: its state is not open yet.', 'starting'];
      else text = `The process answers ${response.status}.`;
      if (data !== null && data !== obj(data)) [data, text] = [null, 'The answer is no status.'];
    } catch { /* Said by text. */ }
    clearTimeout(limit);
    asking = false;
    const spent = performance.now() - began;
    // At most a tenth of the time is spent with asking, however large the answer.
    wait = data ? Math.min(Math.max(PACE, 10 * spent), 6 * LONGEST_PAUSE) : Math.min(PACE * 2 ** misses, LONGEST_PAUSE);
    timer = setTimeout(ask, wait);
    if (!data) return missed(text, word);
    misses = 0;
    accept(data);
    render();
  }

  put($('host'), location.host);
  $('controls').addEventListener('submit', e => e.preventDefault());
  $('window').addEventListener('change', render);
  $('pause').addEventListener('click', () => {
    paused = !paused;
    set($('pause'), 'aria-pressed', String(paused));
    render();
    ask();
  });
  document.addEventListener('visibilitychange', () => { tell(); ask(); });
  new ResizeObserver(() => { for (const name in charts) draw(charts[name]); }).observe($('panels'));
  setInterval(() => { if (!document.hidden) tell(); }, 1000);
  ask();
})();
