// The live page: lines of the query log as they arrive, newest first. The server streams them as JSON; the page keeps
// the latest few hundred.
"use strict";
(() => {
  const one = (id) => document.getElementById(id);
  const most = 500; // limit of displayed lines, and of lines that wait during a pause
  const boxes = Array.from(document.querySelectorAll(".columns input"));
  const form = one("live-form");
  const body = one("live-table").tBodies[0];

  let lines = []; // displayed, newest first
  let waiting = []; // not displayed yet, oldest first
  let paused = false;
  let held = false; // the mouse is over the lines, so they must not move
  let over = 0; // waiting lines that were dropped
  let count = { lines: 0, errors: 0, slow: 0, missed: 0 };
  let last = { boot: "", seq: 0 };
  let slowFrom = Infinity;
  let stream = null;
  let timer = 0;
  let patience = 1000;

  const units = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, m: 60e9 };
  function nanos(text) {
    const m = /^\s*([\d.]+)\s*(ns|us|µs|ms|s|m)\s*$/.exec(text);
    return m ? Number(m[1]) * units[m[2]] : NaN;
  }
  function number(n) {
    return Number(n).toLocaleString("en-US", { maximumFractionDigits: 0 });
  }
  function scaled(v, steps) {
    for (const [size, name] of steps) {
      if (v >= size) return (v / size).toLocaleString("en-US", { maximumSignificantDigits: 3 }) + " " + name;
    }
    return String(v);
  }
  const formats = {
    text: (v) => String(v),
    time: (v) => {
      const at = new Date(v);
      if (document.documentElement.dataset.zone !== "local" || isNaN(at)) return String(v).slice(11, 23);
      return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(11, 23);
    },
    number,
    duration: (v) => scaled(v, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [0, "ns"]]),
    bytes: (v) => scaled(v, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [0, "B"]]),
  };
  const right = new Set(["number", "duration", "bytes"]);

  function valueOf(line, field) {
    if (line[field] !== undefined) return line[field];
    const raw = line[field + "_base64"];
    return raw === undefined ? undefined : "base64:" + raw;
  }
  function failed(line) {
    return line.error_number !== undefined || line.error_text !== undefined || (line.code !== undefined && line.code !== "OK") || line.status >= 400;
  }
  function slow(line) {
    return line.total_ns >= slowFrom;
  }
  // Display invisible characters, and those that change the order of others, as their code, as on all pages.
  function visible(text) {
    const hidden = /[^\P{C}\t\n\r]|[\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
    return text.replace(hidden, (c) => "⟨U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
  }
  function tag(word, kind) {
    const s = document.createElement("span");
    s.className = "tag " + kind;
    s.textContent = word;
    return s;
  }
  function linked(digest) {
    const path = one("live-table").dataset.query;
    if (!path) return digest;
    const a = document.createElement("a");
    a.href = path + encodeURIComponent(digest);
    a.textContent = digest;
    return a;
  }
  function marksOf(line) {
    const marks = [];
    if (line.kind === "dropped") marks.push(tag("missed " + number(line.records), "warn"));
    if (line.kind === "start") marks.push(tag("started", "good"));
    if (failed(line)) marks.push(tag("error " + (line.error_number ?? line.code ?? line.status ?? ""), "bad"));
    if (slow(line)) marks.push(tag("slow", "warn"));
    return marks;
  }

  // Rows.
  function shown() {
    return boxes.filter((b) => b.checked);
  }
  function rowOf(line, columns) {
    const tr = document.createElement("tr");
    tr.dataset.row = line.boot + "/" + line.seq;
    if (failed(line)) tr.className = "failed";
    const first = tr.insertCell();
    first.className = "mark";
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    more.textContent = "+";
    more.setAttribute("aria-label", "Whole line");
    more.setAttribute("aria-expanded", "false");
    more.addEventListener("click", () => whole(tr, more, line));
    first.append(more);
    for (const m of marksOf(line)) first.append(" ", m);
    for (const c of columns) {
      const td = tr.insertCell();
      const v = valueOf(line, c.value);
      if (v !== undefined) td.append(c.value === "digest" ? linked(v) : formats[c.dataset.kind](v));
      if (right.has(c.dataset.kind)) td.className = "n";
      else if (c === columns.at(-1)) td.className = "long";
    }
    return tr;
  }
  function whole(tr, button, line) {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    button.textContent = open ? "+" : "−";
    if (open) {
      tr.nextElementSibling.remove();
      return;
    }
    const row = document.createElement("tr");
    row.className = "whole";
    const td = row.insertCell();
    td.colSpan = tr.cells.length;
    const list = document.createElement("dl");
    for (const [name, value] of Object.entries(line)) {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = name;
      dd.append(name === "digest" ? linked(value) : typeof value === "string" ? value : JSON.stringify(value));
      list.append(dt, dd);
    }
    td.append(list);
    tr.after(row);
  }
  function headOf(columns) {
    const tr = document.createElement("tr");
    const names = [{ dataset: { name: "Note", kind: "text" } }, ...columns];
    for (const c of names) {
      const th = document.createElement("th");
      th.scope = "col";
      th.textContent = c.dataset.name;
      if (right.has(c.dataset.kind)) th.className = "n";
      tr.append(th);
    }
    one("live-table").tHead.replaceChildren(tr);
  }
  function draw() {
    const columns = shown();
    headOf(columns);
    body.replaceChildren(...lines.map((l) => rowOf(l, columns)));
  }
  function put() {
    timer = 0;
    if (!paused && !held && waiting.length) {
      const fresh = waiting.reverse();
      waiting = [];
      const columns = shown();
      body.prepend(...fresh.map((l) => rowOf(l, columns)));
      lines = fresh.concat(lines).slice(0, most);
      const rows = Array.from(body.querySelectorAll("tr[data-row]"));
      for (const tr of rows.slice(most)) {
        if (tr.nextElementSibling?.className === "whole") tr.nextElementSibling.remove();
        tr.remove();
      }
    }
    tell();
  }
  function later() {
    if (!timer) timer = setTimeout(put, 150);
  }
  function tell() {
    const parts = [number(count.lines) + " lines", number(count.errors) + " failed", number(count.slow) + " slow"];
    if (count.missed) parts.push(number(count.missed) + " missed: they came faster than they could be sent");
    if (paused || held) parts.push(number(waiting.length + over) + " wait" + (over ? ", the latest " + most + " of them are kept" : ""));
    one("live-counts").textContent = parts.join(" · ");
  }
  function take(line) {
    if (line.seq !== undefined) {
      if (line.boot === last.boot && line.seq <= last.seq) return; // received before the connection broke
      last = { boot: line.boot, seq: line.seq };
    }
    if (line.kind === "dropped") count.missed += line.records;
    else count.lines++;
    if (failed(line)) count.errors++;
    if (slow(line)) count.slow++;
    waiting.push(line);
    if (waiting.length > most) {
      over += waiting.length - most;
      waiting = waiting.slice(-most);
    }
    later();
  }

  // The stream.
  function say(text, kind) {
    const p = one("live-status");
    p.textContent = text;
    p.className = "status " + (kind || "");
  }
  async function connect() {
    stream?.abort();
    const mine = new AbortController();
    stream = mine;
    const q = new URLSearchParams({ format: "json" });
    const filter = one("live-filter").value.trim();
    if (filter) q.set("filter", filter);
    say("Connecting…");
    try {
      const res = await fetch("/debug/querylog?" + q, { signal: mine.signal, credentials: "same-origin" });
      if (res.status === 400) {
        say((await res.text()).trim(), "bad");
        return; // until the filter changes
      }
      if (!res.ok) throw new Error("the server answered " + res.status);
      say("Streaming" + (filter ? " what meets the filter" : "") + ". Lines are at most a second late.", "good");
      patience = 1000;
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n");
        rest = parts.pop();
        for (const text of parts) if (text) take(JSON.parse(text, (_, v) => (typeof v === "string" ? visible(v) : v)));
      }
      throw new Error("the server ended the stream");
    } catch (e) {
      if (mine !== stream || mine.signal.aborted) return;
      say("Not connected: " + e.message + ". Trying again in " + Math.round(patience / 1000) + " s.", "bad");
      setTimeout(() => mine === stream && connect(), patience);
      patience = Math.min(2 * patience, 30_000);
    }
  }
  function clear() {
    lines = [];
    waiting = [];
    over = 0;
    count = { lines: 0, errors: 0, slow: 0, missed: 0 };
    body.replaceChildren();
    tell();
  }
  function pause(on) {
    paused = on;
    one("live-pause").setAttribute("aria-pressed", String(on));
    one("live-pause").textContent = on ? "Resume" : "Pause";
    if (!on) over = 0;
    put();
  }
  function hold(on) {
    held = on;
    if (!on && !paused) over = 0;
    put();
  }
  body.addEventListener("pointerenter", (e) => e.pointerType === "mouse" && hold(true));
  body.addEventListener("pointerleave", () => hold(false));
  function readSlow() {
    const n = nanos(one("live-slow").value);
    one("live-slow").setCustomValidity(Number.isNaN(n) ? "Write a duration such as 100ms or 1s." : "");
    slowFrom = Number.isNaN(n) ? Infinity : n;
  }

  // The selected columns are stored per kind of server.
  const key = "live-columns:" + boxes.map((b) => b.value).join();
  try {
    const kept = localStorage.getItem(key);
    if (kept !== null) for (const b of boxes) b.checked = kept.split(",").includes(b.value);
  } catch {
    // Storage is disabled: the choice lasts as long as the page.
  }
  for (const b of boxes) {
    b.addEventListener("change", () => {
      try {
        localStorage.setItem(key, shown().map((c) => c.value).join());
      } catch {
        // Storage is disabled.
      }
      draw();
    });
  }

  form.addEventListener("submit", (e) => {
    e.preventDefault();
    readSlow();
    if (!form.reportValidity()) return;
    const q = new URLSearchParams();
    for (const name of ["filter", "slow"]) if (form.elements[name].value.trim()) q.set(name, form.elements[name].value.trim());
    history.replaceState(null, "", form.getAttribute("action") + (q.size ? "?" + q : ""));
    last = { boot: "", seq: 0 };
    clear();
    connect();
  });
  one("live-pause").addEventListener("click", () => pause(!paused));
  one("live-clear").addEventListener("click", clear);
  document.addEventListener("keydown", (e) => {
    if (e.metaKey || e.ctrlKey || e.altKey || e.target.matches("input, select, textarea")) return;
    if (e.key === "p") pause(!paused);
    if (e.key === "Enter" && !e.target.closest("a, button, summary")) document.querySelector("tr.at .more")?.click();
  });
  readSlow();
  draw();
  connect();
})();
