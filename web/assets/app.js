// Enhancements of the pages: refreshing, keyboard shortcuts, colours, local times, copying, a crosshair in charts, and filters
// without a button. Every page works without them.
"use strict";
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);

  // Colours.
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  function showTheme() {
    one("#theme-name").textContent = root.dataset.theme || "auto";
  }
  function nextTheme() {
    const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "auto") localStorage.removeItem("theme");
      else localStorage.setItem("theme", next);
    } catch {
      // Storage is disabled: the choice lasts as long as the page.
    }
    showTheme();
  }

  // Times: of this computer, or UTC. The formats are those of localtime.go.
  let local = (() => {
    try {
      return localStorage.getItem("zone") !== "utc";
    } catch {
      return true; // storage is disabled
    }
  })();
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const two = (n) => String(n).padStart(2, "0");
  function timeText(date, as) {
    // A date whose UTC fields are those to show.
    const d = local ? new Date(date.getTime() - date.getTimezoneOffset() * 60_000) : date;
    const minute = two(d.getUTCHours()) + ":" + two(d.getUTCMinutes());
    const second = minute + ":" + two(d.getUTCSeconds());
    const day = d.getUTCFullYear() + "-" + two(d.getUTCMonth() + 1) + "-" + two(d.getUTCDate());
    const short = months[d.getUTCMonth()] + " " + d.getUTCDate();
    const midnight = second === "00:00:00";
    switch (as) {
      case "s":
        return second;
      case "t":
        return local && midnight ? short : minute;
      case "d":
        return short + " " + minute;
      case "D":
        return day;
      case "a":
        return midnight ? short : minute;
      case "A":
        return short;
    }
    return day + " " + second;
  }
  function zoneText() {
    if (!local) return "UTC";
    const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(new Date());
    return parts.find((p) => p.type === "timeZoneName")?.value || "local";
  }
  // Shows the times of a page or part. Only what differs is changed: a refresh compares parts.
  function showTimes(within) {
    const put = (e, text) => {
      if (e.textContent !== text) e.textContent = text;
    };
    for (const e of all("time[datetime]", within)) {
      put(e, timeText(new Date(e.getAttribute("datetime")), e.dataset.as));
      e.title = e.getAttribute("datetime");
    }
    for (const e of all("tspan[data-utc]", within)) put(e, timeText(new Date(e.dataset.utc), e.dataset.as));
    const zone = zoneText();
    for (const e of all(".zone", within)) put(e, zone);
  }
  function showZone() {
    root.dataset.zone = local ? "local" : "utc";
    one("#zone-name").textContent = local ? "local" : "UTC";
    showTimes(document);
  }
  function nextZone() {
    local = !local;
    try {
      if (local) localStorage.removeItem("zone");
      else localStorage.setItem("zone", "utc");
    } catch {
      // Storage is disabled: the choice lasts as long as the page.
    }
    showZone();
  }
  // Times without a zone that are entered while times are local become UTC, as the server reads them.
  document.addEventListener("submit", (e) => {
    if (!local || !e.target.matches("form.range")) return;
    for (const input of all("input[name=from], input[name=to]", e.target)) {
      const m = /^\s*(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?\s*$/.exec(input.value);
      const at = m && new Date(m[1] + "T" + (m[2] || "00:00"));
      if (at && !isNaN(at)) input.value = at.toISOString().slice(0, 19) + "Z";
    }
  });

  // Refreshing: fetch the same page again and replace each changed part of <main>.
  const every = 10_000;
  let following = true;
  let busy = false;
  function partsOf(main) {
    return all("[data-part]", main);
  }
  function mayReplace(part) {
    const s = getSelection();
    if (s && !s.isCollapsed && s.anchorNode && part.contains(s.anchorNode)) return false;
    return !(part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea"));
  }
  function replaceParts(fresh) {
    const old = new Map(partsOf(one("main")).map((p) => [p.dataset.part, p]));
    const next = partsOf(fresh.querySelector("main"));
    if (next.length !== old.size || next.some((p) => !old.has(p.dataset.part))) {
      // Parts were added or removed: replace everything.
      one("main").replaceChildren(...fresh.querySelector("main").childNodes);
    } else {
      for (const part of next) {
        const was = old.get(part.dataset.part);
        if (!mayReplace(was) || was.innerHTML === part.innerHTML) continue;
        const open = new Set(all("details[open]", was).map(pathOf));
        const row = all("tr.at", was).map((r) => r.dataset.row)[0];
        const focused = was.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
        was.replaceChildren(...part.childNodes);
        for (const d of all("details", was)) if (open.has(pathOf(d))) d.open = true;
        if (row) for (const r of all("tr[data-row]", was)) r.classList.toggle("at", r.dataset.row === row);
        if (focused) all("a[href]", was).find((a) => a.getAttribute("href") === focused)?.focus({ preventScroll: true });
      }
    }
    const says = fresh.querySelector("#says");
    if (says && one("#says")) one("#says").replaceChildren(...says.childNodes);
    for (const form of all("form[action]")) {
      const next = all("form[action]", fresh).find((f) => f.className === form.className);
      if (next) syncForm(form, next);
    }
    const foot = fresh.querySelector("footer");
    if (foot) one("footer").replaceChildren(...foot.childNodes);
    enhance(one("main"));
  }
  // Update the hidden fields and links of a form to the address; keep what the user types.
  function syncForm(form, next) {
    for (const i of all("input[type=hidden]", form)) i.remove();
    form.prepend(...all("input[type=hidden]", next));
    const links = all("a[href]", next);
    for (const a of all("a[href]", form)) {
      const b = links.find((l) => l.textContent === a.textContent);
      if (b) a.setAttribute("href", b.getAttribute("href"));
    }
    const moment = next.querySelector("[data-link]");
    if (moment) form.querySelector("[data-link]").dataset.link = moment.dataset.link;
  }
  function pathOf(d) {
    const figure = d.closest("[id]");
    return (figure ? figure.id : "") + "/" + d.className;
  }
  async function load(url) {
    const res = await fetch(url, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (!res.ok) throw new Error(res.statusText);
    const page = new DOMParser().parseFromString(await res.text(), "text/html");
    showTimes(page);
    return page;
  }
  async function refresh() {
    if (busy) return;
    busy = true;
    try {
      replaceParts(await load(location.href));
      root.classList.remove("stale");
    } catch {
      root.classList.add("stale"); // shown by the button; the next refresh tries again
    } finally {
      busy = false;
    }
  }
  function follows() {
    return following && !choosing && one("main").hasAttribute("data-follow") && !document.hidden && !one("#help").open;
  }
  function setFollowing(on) {
    following = on;
    one("#follow").setAttribute("aria-pressed", String(on));
  }

  // Copying: the text beside the button, or a link to the displayed range.
  async function copy(button) {
    const name = button.textContent;
    const source = button.closest(".copybox")?.querySelector("code, pre");
    try {
      await navigator.clipboard.writeText(source ? source.textContent : new URL(button.dataset.link, location.href).href);
      button.textContent = "Copied";
    } catch {
      // The clipboard requires HTTPS or localhost.
      if (source) {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      } else {
        location.assign(button.dataset.link); // the address becomes the link
      }
    }
    setTimeout(() => (button.textContent = name), 1500);
  }

  // Distance of the drawing from the left edge of its plot, in CSS pixels. An SVG element has no offsetLeft.
  function leftIn(plot, svg) {
    return svg.getBoundingClientRect().left - plot.getBoundingClientRect().left - plot.clientLeft;
  }

  // Select a range in a chart with the mouse; on the keyboard, t opens the form of the time range.
  let choosing = false;
  function choosable(figure) {
    const plot = figure.querySelector(".plot[data-from]");
    if (!plot || !one("form.range")) return;
    const svg = plot.querySelector(":scope > svg");
    const band = document.createElement("div");
    band.className = "band";
    band.hidden = true;
    plot.append(band);
    plot.classList.add("choosable");
    let start = 0;
    let end = 0;
    const at = (e) => {
      const box = svg.getBoundingClientRect();
      return Math.min(Math.max((e.clientX - box.left) / box.width, 0), 1);
    };
    svg.addEventListener("pointerdown", (e) => {
      if (e.pointerType !== "mouse" || e.button !== 0) return;
      e.preventDefault(); // do not select text
      choosing = true;
      start = end = at(e);
      svg.setPointerCapture(e.pointerId);
    });
    svg.addEventListener("pointermove", (e) => {
      if (!svg.hasPointerCapture(e.pointerId)) return;
      end = at(e);
      const width = svg.getBoundingClientRect().width;
      band.style.left = leftIn(plot, svg) + Math.min(start, end) * width + "px";
      band.style.width = Math.abs(end - start) * width + "px";
      band.hidden = false;
    });
    svg.addEventListener("lostpointercapture", () => {
      choosing = false;
      band.hidden = true;
      const ends = [start, end].sort((a, b) => a - b);
      if ((ends[1] - ends[0]) * svg.getBoundingClientRect().width < 8) return; // a click
      const from = Number(plot.dataset.from);
      const times = ends.map((f) => Math.round(from + f * (Number(plot.dataset.to) - from)));
      const to = new URL(location.href);
      to.searchParams.set("from", new Date(times[0] * 1000).toISOString().slice(0, 19) + "Z");
      to.searchParams.set("to", new Date(Math.max(times[1], times[0] + 1) * 1000).toISOString().slice(0, 19) + "Z");
      to.searchParams.delete("page");
      location.assign(to);
    });
  }

  // Values under the pointer: for lines the nearest row of the table, for a heat map the field.
  function readable(figure) {
    const plot = figure.querySelector(".plot");
    if (!plot || figure.matches(".lanes")) return;
    const read = figure.matches(".heat") ? fieldsOf(plot) : rowsOf(figure);
    if (!read) return;
    const svg = plot.querySelector(":scope > svg");
    const line = document.createElement("div");
    line.className = "reading";
    line.hidden = true;
    const label = document.createElement("div");
    label.className = "label";
    line.append(label);
    plot.append(line);
    svg.addEventListener("pointermove", (e) => {
      const box = svg.getBoundingClientRect();
      const x = Math.min(Math.max((e.clientX - box.left) / box.width, 0), 1);
      const y = Math.min(Math.max((box.bottom - e.clientY) / box.height, 0), 1);
      const found = read(x, y);
      line.hidden = !found;
      if (!found) return;
      label.replaceChildren(
        ...found.lines.map((text) => {
          const p = document.createElement("div");
          p.textContent = text;
          return p;
        }),
      );
      line.style.left = leftIn(plot, svg) + found.at * box.width + "px";
      label.classList.toggle("left", found.at > 0.6);
    });
    svg.addEventListener("pointerleave", () => (line.hidden = true));
  }
  function rowsOf(figure) {
    const rows = all(".numbers tbody tr[data-at]", figure);
    if (rows.length < 2) return null;
    const names = all(".numbers thead th", figure).map((h) => h.textContent);
    const places = rows.map((r) => Number(r.dataset.at) / 1000);
    return (x) => {
      let i = 0;
      for (let n = 1; n < places.length; n++) if (Math.abs(places[n] - x) < Math.abs(places[i] - x)) i = n;
      const cells = Array.from(rows[i].children, (c) => c.textContent);
      return { at: places[i], lines: cells.map((text, n) => (n > 0 && names.length > 2 ? names[n] + "  " + text : text)) };
    };
  }
  function fieldsOf(plot) {
    if (!plot.dataset.columns) return null;
    const edges = plot.dataset.columns.split(" ").map((v) => Number(v) / 1000);
    const bounds = plot.dataset.rows.split("|");
    const calls = plot.dataset.calls.split(";").map((c) => new Map(c.split(" ").map((f) => f.split(":"))));
    const from = Number(plot.dataset.from);
    const length = Number(plot.dataset.to) - from;
    const clock = (at) => timeText(new Date(Math.round(from + at * length) * 1000));
    return (x, y) => {
      const column = edges.findLastIndex((e) => e <= x);
      if (column < 0 || column >= calls.length || x > edges[column + 1]) return null;
      const row = Math.min(Math.floor(y * (bounds.length - 1)), bounds.length - 2);
      const n = Number(calls[column].get(String(row)) || 0);
      return {
        at: (edges[column] + edges[column + 1]) / 2,
        lines: [clock(edges[column]), bounds[row] + " – " + bounds[row + 1], n.toLocaleString("en-US") + (n === 1 ? " call" : " calls")],
      };
    };
  }

  // Rows.
  function move(by) {
    const rows = all("tr[data-row]").filter((r) => r.offsetParent !== null);
    if (!rows.length) return;
    const at = rows.findIndex((r) => r.classList.contains("at"));
    const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    rows.forEach((r) => r.classList.toggle("at", r === next));
    next.scrollIntoView({ block: "nearest" });
    next.querySelector("a[href]")?.focus({ preventScroll: true });
  }

  // Filters and sorting without a page load: replace the content by the response to the form or link.
  let typing = 0;
  async function go(url, remember) {
    const mine = ++typing;
    try {
      const fresh = await load(url);
      if (mine !== typing) return;
      remember(url);
      replaceParts(fresh);
    } catch {
      location.assign(url);
    }
  }
  addEventListener("popstate", () => go(location.href, () => {}));
  function formURL(form) {
    const q = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value !== "") q.append(name, value);
    return form.getAttribute("action") + (q.size ? "?" + q : "");
  }
  let later;
  document.addEventListener("input", (e) => {
    const form = e.target.closest("form[data-live]");
    if (!form) return;
    clearTimeout(later);
    later = setTimeout(() => go(formURL(form), (url) => history.replaceState(null, "", url)), 250);
  });
  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const button = e.target.closest("[data-copy], [data-link]");
    if (button) {
      copy(button);
      return;
    }
    const link = e.target.closest("a[data-in-place]");
    if (link) {
      e.preventDefault();
      go(link.href, (url) => history.pushState(null, "", url));
    }
  });

  // The list of a filter's field offers completions of the last word.
  document.addEventListener("input", (e) => {
    const list = e.target.list;
    if (!list || !list.dataset.words) return;
    const words = list.dataset.words.split(" ");
    const last = e.target.value.lastIndexOf(" ") + 1;
    const head = e.target.value.slice(0, last);
    const tail = e.target.value.slice(last);
    const not = tail.startsWith("-") ? "-" : "";
    const fit = tail === "" ? [] : words.filter((w) => w.startsWith(tail.slice(not.length)) && w !== tail);
    list.replaceChildren(...fit.map((w) => Object.assign(document.createElement("option"), { value: head + not + w })));
  });

  // The field of a PromQL expression offers completions of its end: functions and metrics, in braces the labels of the metric, and
  // in quotes their values, from the API, at most as many as a list shows.
  const offered = 50;
  const responses = new Map(); // by URL
  async function apiValues(path, params) {
    const q = new URLSearchParams({ limit: offered, ...params });
    const range = one("form.range");
    if (range) {
      // The API has no relative times: the last day, or the day of a fixed range.
      const to = Date.parse(range.elements.to.value) || Date.now();
      q.set("end", Math.ceil(to / 60_000) * 60);
      q.set("start", Math.ceil(to / 60_000) * 60 - 86_400);
    }
    const tenant = one("input[name=tenant]")?.value;
    const url = path + "?" + q + (tenant ? "#" + tenant : "");
    if (responses.size > 200) responses.clear();
    if (!responses.has(url)) {
      const headers = { Accept: "application/json", ...(tenant ? { "X-Scope-OrgID": tenant } : {}) };
      const values = fetch(url, { headers, credentials: "same-origin" })
        .then((res) => (res.ok ? res.json() : { data: [] }))
        .then((body) => body.data || [])
        .catch(() => []);
      responses.set(url, values);
    }
    return responses.get(url);
  }
  const pattern = (text) => JSON.stringify(text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&") + ".*");
  // Returns the length of the last word of an expression, and what it may become.
  async function promqlWords(text, functions) {
    const braces = /([a-zA-Z_:][a-zA-Z0-9_:]*)?\{([^{}]*)$/.exec(text);
    const within = braces && (braces[2].match(/(?<!\\)"/g) || []).length % 2 === 1;
    const metric = braces?.[1] ? { "match[]": braces[1] } : {};
    if (within) {
      const [, label, value] = /([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)$/.exec(braces[2]) || [];
      if (!label || value.includes("\\")) return [0, []];
      const select = (braces[1] || "") + "{" + label + "=~" + pattern(value) + "}";
      const found = await apiValues("/api/v1/label/" + label + "/values", { "match[]": select });
      return [value.length, found.map((v) => JSON.stringify(v).slice(1))];
    }
    if (braces) {
      const word = /[a-zA-Z0-9_]*$/.exec(braces[2])[0];
      const found = await apiValues("/api/v1/labels", { ...metric, limit: 1000 });
      return [word.length, found.filter((l) => l !== "__name__" && l.startsWith(word)).map((l) => l + '="')];
    }
    const word = /[a-zA-Z0-9_:]*$/.exec(text)[0];
    if (word === "") return [0, []];
    const found = await apiValues("/api/v1/label/__name__/values", { "match[]": "{__name__=~" + pattern(word) + "}" });
    return [word.length, functions.filter((f) => f.startsWith(word)).concat(found)];
  }
  let completing = 0;
  document.addEventListener("input", (e) => {
    const list = e.target.list;
    if (!list || !list.dataset.promql) return;
    const mine = ++completing;
    const text = e.target.value;
    setTimeout(async () => {
      if (mine !== completing) return;
      const [typed, words] = await promqlWords(text, list.dataset.promql.split(" "));
      if (mine !== completing) return;
      const head = text.slice(0, text.length - typed);
      const fit = words.filter((w) => head + w !== text).slice(0, offered);
      list.replaceChildren(...fit.map((w) => Object.assign(document.createElement("option"), { value: head + w })));
    }, 150);
  });

  // Keys.
  let afterG = false;
  document.addEventListener("keydown", (e) => {
    if (e.metaKey || e.ctrlKey || e.altKey) return;
    if (e.target.matches("input, select, textarea")) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    if (one("#help").open) return;
    if (afterG) {
      afterG = false;
      const to = all("nav a[data-key]").find((a) => a.dataset.key === e.key);
      if (to) to.click();
      return;
    }
    const act = {
      g: () => (afterG = true),
      "/": () => one("[data-filter]")?.focus(),
      j: () => move(1),
      k: () => move(-1),
      t: () => one("form.range input[name=from]")?.select(),
      p: () => setFollowing(!following),
      "?": () => one("#help").showModal(),
    }[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });

  function enhance(within) {
    for (const b of all("[data-copy]", within)) b.hidden = false;
    for (const f of all("figure.chart", within)) {
      if (f.querySelector(".reading, .band")) continue;
      readable(f);
      choosable(f);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const e of all("[data-scripted]")) e.hidden = false;
    showTheme();
    showZone();
    one("#zone").addEventListener("click", nextZone);
    one("#theme").addEventListener("click", nextTheme);
    one("#keys").addEventListener("click", () => one("#help").showModal());
    const follow = one("#follow");
    follow.hidden = !one("main").hasAttribute("data-follow");
    follow.addEventListener("click", () => setFollowing(!following));
    enhance(document);
    setInterval(() => follows() && refresh(), every);
  });
})();
