// Keys, ticking times, what happens around a swap, the pace of hidden tabs, copying, one press per form.
// Every page works without this file.
(() => {
  "use strict";
  const one = (what, where = document) => where.querySelector(what);
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const isField = (el) => el && el.matches("input, textarea, select, [contenteditable]");
  // Aloud at most every 5 s, and the last word wins: a screen reader reads each to its end.
  let saidAt = 0, toSay = 0;
  const say = (text) => {
    clearTimeout(toSay);
    toSay = setTimeout(() => { saidAt = Date.now(); one("#says").textContent = text; }, Math.max(0, saidAt + 5000 - Date.now()));
  };
  const skew = () => Date.parse(document.body.dataset.now || "") - started || 0;
  // When the server's answer began, by this browser's clock.
  const started = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart || performance.now());
  const now = () => Date.now() + skew();

  // ---- times that run
  const two = (n) => String(n).padStart(2, "0");
  const duration = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(s / 3600);
    if (s < 1) return "under 1 s";
    if (s < 60) return `${s} s`;
    if (h < 1) return `${m} min ${two(s % 60)} s`;
    return h < 48 ? `${h} h ${two(m % 60)} min` : `${Math.floor(h / 24)} days`;
  };
  const tick = () => {
    for (const el of all("[data-since]")) el.textContent = duration(now() - Date.parse(el.dataset.since));
    for (const el of all("[data-until]")) el.textContent = duration(Date.parse(el.dataset.until) - now());
    showLiveness();
  };

  // ---- is this page fresh?
  let heard = Date.now(), asked = 0;
  const hhmmss = (ms) => new Date(ms + skew()).toLocaleTimeString("en-GB", { timeZone: document.body.dataset.zone || "UTC" });
  const showLiveness = () => {
    const mark = one("#live-mark"), poller = one("[data-poll]");
    if (!mark || !poller) return;
    const age = Date.now() - heard, bound = Number(poller.dataset.poll) * 1000 + 5000, old = age > bound;
    mark.classList.toggle("stale", old);
    mark.textContent = old ? `Not live since ${hhmmss(heard)}` : `Live · checked ${duration(age)} ago`;
    const line = one("#old");
    if (line) { line.hidden = age < 30000 || document.hidden; one("b", line).textContent = duration(age); }
  };
  setInterval(tick, 1000);

  // ---- polling: slowly while hidden, at once on return
  // A press overtakes a look: what it brings is newer, and may take the place that the answer to the look was for.
  const isOvertaken = (poller) => !poller.isConnected || one(".htmx-request:not([data-poll])") !== null;
  document.addEventListener("htmx:beforeRequest", (event) => {
    const poller = event.detail.elt;
    if (!poller.matches("[data-poll]")) return;
    if (isOvertaken(poller) || (document.hidden && Date.now() - asked < 30000)) { event.preventDefault(); return; }
    asked = Date.now();
    // Listened for on the poller itself: of one that is off the page the document hears nothing.
    poller.addEventListener("htmx:beforeOnLoad", (answer) => { if (isOvertaken(poller)) answer.preventDefault(); }, { once: true });
  });
  // A poller that its own answer has replaced is named only by what it asked with.
  const isLook = (event) => (event.detail.requestConfig?.elt || event.detail.elt).matches("[data-poll]");
  document.addEventListener("htmx:afterRequest", (event) => {
    if (isLook(event) && event.detail.successful) heard = Date.now();
    if (event.detail.elt.matches("form")) free(event.detail.elt);
  });
  const look = () => { const poller = one("[data-poll]"); if (poller && window.htmx) window.htmx.trigger(poller, "look"); };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });

  // ---- a press that got no answer: said where it was pressed, with what is known of it, until the next one is answered
  const unanswered = one("#unanswered");
  const dropped = (event) => {
    if (isLook(event)) return;
    const { xhr, requestConfig } = event.detail;
    const asks = requestConfig?.verb === "get", status = xhr?.status || 0;
    let says = "The server did not answer. It may have been done. Looking…";
    if (asks) says = "The server did not answer. Nothing was changed.";
    else if (status === 503) says = "The server is busy. Nothing was done; try again in a few seconds.";
    else if (status >= 400 && status < 500) says = "Nothing was done: what this was about is no longer there.";
    one("b", unanswered).textContent = says;
    unanswered.hidden = false;
    (one("dialog:modal") || one("main")).prepend(unanswered);
    if (!asks) look();
  };
  for (const name of ["htmx:sendError", "htmx:timeout", "htmx:responseError"]) document.addEventListener(name, dropped);
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.successful || unanswered.hidden) return;
    if (!isLook(event)) unanswered.hidden = true;
    else one("b", unanswered).textContent = one("b", unanswered).textContent.replace("Looking…", "What the server knows stands below.");
  });

  // ---- a filter that takes long: the rows stay, and are said to be busy
  const busy = (on) => (event) => { if (event.detail.elt.closest(".filters")) event.detail.target?.setAttribute("aria-busy", on); };
  document.addEventListener("htmx:beforeRequest", busy("true"));
  document.addEventListener("htmx:afterRequest", busy("false"));

  // ---- swaps: nothing is replaced under a hand that writes, open things stay open, focus goes where it was
  let open = [], place = "", swappedAt = 0, swapped = null;
  const isDirty = (el) => all("input, textarea, select", el).some((f) =>
    f.type === "radio" || f.type === "checkbox" ? f.checked !== f.defaultChecked : f.type !== "hidden" && f.defaultValue !== undefined && f.value !== f.defaultValue);
  // What stands at the top of the window, and where: the browser loses its own hold when that is replaced.
  let held = null;
  const hold = () => {
    const inSight = (el) => { const { top, height } = el.getBoundingClientRect(); return height && top >= 0 && top < innerHeight; };
    const el = [document.activeElement, ...all("main [id]")].find((one) => one?.id && inSight(one));
    held = el && { id: el.id, top: el.getBoundingClientRect().top };
  };
  const holdOn = () => {
    const el = held && document.getElementById(held.id);
    if (el) scrollBy({ top: el.getBoundingClientRect().top - held.top, behavior: "instant" });
    held = null;
  };
  document.addEventListener("htmx:beforeSwap", (event) => { if (event.detail.requestConfig?.elt?.matches("[data-poll]")) hold(); });
  document.addEventListener("htmx:afterSettle", () => { holdOn(); place = ""; });
  // What an answer would put in the place of a list, told as what it does to the rows.
  const rowsOf = (el) => all("a.ttl[href]", el).map((a) => a.getAttribute("href"));
  const news = (target, incoming) => {
    const was = rowsOf(target), is = rowsOf(incoming), kept = is.filter((row) => was.includes(row));
    // Rows that keep their order among each other stand still; those outside the longest such chain moved.
    const ends = [];
    for (const n of kept.map((row) => was.indexOf(row))) { const at = ends.findIndex((end) => end > n); ends[at < 0 ? ends.length : at] = n; }
    const counts = [[is.length - kept.length, "new"], [kept.length - ends.length, "moved"], [was.length - kept.length, "gone"]];
    return counts.filter(([n]) => n).map(([n, what]) => `${n} ${what}`).join(", ") || "Something changed in these rows";
  };
  // A look whose news were kept back is asked again with what it knew before: its poller, the last part of an answer, stays too.
  let keptBack = false;
  document.addEventListener("htmx:beforeOnLoad", () => { keptBack = false; });
  const before = (event) => {
    // The element that asked; of a swap htmx names only the one that is replaced.
    const asker = event.detail.requestConfig?.elt;
    const target = event.detail.target, quiet = event.type === "htmx:oobBeforeSwap" || asker?.matches("[data-quiet]");
    if (!target) return;
    if (target.id === "says") { event.detail.shouldSwap = false; say(event.detail.fragment.textContent.trim()); return; }
    // A look that was refused says nothing about the run; what stands there stays, and grows old in sight.
    if (event.detail.xhr?.status >= 400 && asker?.matches("[data-poll]")) { event.detail.shouldSwap = false; return; }
    const focused = target.contains(document.activeElement) && document.activeElement !== target ? document.activeElement : null;
    const pointed = target.matches("[data-calm]") && target.matches(":hover, :focus-within");
    if (target.matches("[data-poll]") && keptBack) { event.detail.shouldSwap = false; return; }
    if (quiet && (pointed || isField(focused) || isDirty(target))) {
      event.detail.shouldSwap = false;
      const line = one(target.matches("[data-calm]") ? "#news" : "#changed");
      if (line) line.hidden = false;
      if (target.matches("[data-calm]")) {
        const incoming = event.detail.fragment || new DOMParser().parseFromString(event.detail.serverResponse, "text/html");
        one("b", line).textContent = news(target, one(`#${target.id}`, incoming) || incoming);
        keptBack = true;
      }
      return;
    }
    if (focused) place = focused.id || focused.getAttribute("href") || "";
    open = all("details[open][id]", target).map((el) => el.id);
  };
  const after = (event) => {
    swappedAt = Date.now(); swapped = event.target;
    if (swapped.matches("[data-calm]") && one("#news")) one("#news").hidden = true;
    for (const id of open) { const el = document.getElementById(id); if (el) el.open = true; }
    const dialog = one("#over dialog");
    if (dialog && !dialog.matches(":modal")) { dialog.removeAttribute("open"); dialog.showModal(); }
    const led = one("[data-focus]", event.target), back = place && (document.getElementById(place) || one(`[href="${CSS.escape(place)}"]`));
    // Of several parts that are swapped together, another may be the one that had it.
    if (led) led.focus(); else if (back && event.target.contains(back)) { back.focus({ preventScroll: true }); place = ""; }
    tick();
  };
  document.addEventListener("htmx:oobBeforeSwap", before);
  document.addEventListener("htmx:beforeSwap", before);
  document.addEventListener("htmx:oobAfterSwap", after);
  document.addEventListener("htmx:afterSwap", after);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button, a.btn"), shut = event.target.closest("dialog:modal [data-esc]");
    if (shut) { event.preventDefault(); event.stopPropagation(); shut.closest("dialog").close(); leave(); return; }
    if (button && swapped && swapped.contains(button) && document.contains(swapped) && Date.now() - swappedAt < 700) event.preventDefault();
    const copy = event.target.closest("[data-copy]");
    if (copy && navigator.clipboard) navigator.clipboard.writeText(copy.dataset.copy).then(() => { copy.textContent = "Copied"; say("Copied."); });
  }, true);
  const leave = () => { if (one("#over #unanswered")) one("main").prepend(unanswered); one("#over").replaceChildren(); all('[hx-target="#over"]').find((el) => el.offsetParent)?.focus(); };
  document.addEventListener("cancel", (event) => { if (event.target.closest("#over")) setTimeout(leave); }, true);

  // ---- the preview's button promises what the ticks make of it: drift that is not undone over is where the walk stops
  document.addEventListener("change", (event) => {
    const button = one("[data-whole]");
    if (!button || event.target.name !== "over") return;
    let count = 0, stop = null;
    for (const line of all("[data-line]")) {
      const tick = one("[name=over]", line);
      if (tick && !tick.checked) { stop = line.dataset.step; break; }
      count += 1;
    }
    const effects = `${count} effect${count === 1 ? "" : "s"}`;
    button.lastChild.textContent = stop === null ? button.dataset.whole.trim() : count ? `Undo ${effects}, then stop at step ${stop}` : `Begin, and stop at step ${stop}`;
  });

  // ---- the button below the ways on says what the chosen one does
  document.addEventListener("change", (event) => {
    const does = event.target.dataset.does, button = does && one("button", event.target.form);
    if (button) { button.classList.add("back"); button.lastChild.textContent = does; }
  });

  // ---- several at once: the first tick fixes the kind of call, the button says to how many
  const several = () => {
    const boxes = all('#several input[name="item"]'), picked = boxes.filter((el) => el.checked), kind = picked[0]?.dataset.kind;
    for (const el of boxes) { el.disabled = Boolean(kind) && el.dataset.kind !== kind; el.title = el.disabled ? "another kind of call" : ""; }
    const review = one("[data-review]"), whole = one("[data-all]"), send = one("[data-several]"), yes = all('#bulk input[name="yes"]:checked');
    if (review) {
      whole.hidden = false;
      review.disabled = !picked.length;
      review.textContent = picked.length ? `Review ${picked.length}…` : "Review those selected…";
      one("[data-picked]").textContent = picked.length ? `${picked.length} of ${boxes.length} shown` : "";
    }
    if (!send) return;
    const people = new Set(yes.map((el) => el.dataset.to)).size;
    send.disabled = !yes.length;
    send.lastChild.textContent = yes.length ? `Send ${yes.length} to ${people} ${people === 1 ? "person" : "people"}` : "Tick what may go";
  };
  document.addEventListener("change", (event) => {
    const whole = event.target.closest("[data-all]");
    const boxes = all('#several input[name="item"]'), kind = (boxes.find((el) => el.checked) || boxes[0])?.dataset.kind;
    if (whole) for (const el of boxes) el.checked = event.target.checked && el.dataset.kind === kind;
    several();
  });
  document.addEventListener("DOMContentLoaded", several);
  document.addEventListener("htmx:afterSettle", several);

  // ---- what was typed survives a login: in this window only, until its field is there again
  const typed = () => JSON.parse(sessionStorage.getItem(`typed ${location.pathname}`) || "{}");
  const giveBack = () => {
    const kept = typed();
    for (const [id, value] of Object.entries(kept)) {
      const el = document.getElementById(id);
      if (!el || !el.matches("textarea, input[type=text]")) continue;
      el.value = value;
      delete kept[id];
    }
    sessionStorage.setItem(`typed ${location.pathname}`, JSON.stringify(kept));
  };
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (!event.detail.xhr.getResponseHeader("HX-Redirect") || !event.detail.elt.matches("form")) return;
    const kept = all("textarea, input[type=text]", event.detail.elt).filter((el) => el.id && el.value).map((el) => [el.id, el.value]);
    if (kept.length) sessionStorage.setItem(`typed ${location.pathname}`, JSON.stringify(Object.fromEntries(kept)));
  });
  document.addEventListener("DOMContentLoaded", giveBack);
  document.addEventListener("htmx:afterSettle", giveBack);

  // ---- printing, which a browser can do and a page can only ask for
  for (const el of all("[data-print]")) { el.hidden = false; el.addEventListener("click", () => print()); }

  // ---- one press per form
  const free = (form) => all("button[data-was]", form).forEach((el) => { el.disabled = false; el.innerHTML = el.dataset.was; delete el.dataset.was; });
  document.addEventListener("submit", (event) => setTimeout(() => {
    if (event.defaultPrevented && !event.target.matches("[hx-post]")) return;
    if (event.target.method !== "post") return;
    for (const el of all("button", event.target)) {
      el.dataset.was = el.innerHTML; el.disabled = true;
      if (el === event.submitter && el.dataset.busy) el.textContent = el.dataset.busy;
    }
  }));
  window.addEventListener("pageshow", (event) => { if (event.persisted) all("form").forEach(free); });

  // ---- keys: a letter opens or focuses; it never sends or undoes
  let awaitsPage = 0;
  const rows = () => all("tr.row a.ttl, .q a.ttl").filter((el) => el.offsetParent);
  const toRow = (by) => {
    const found = rows(), at = found.indexOf(document.activeElement);
    const next = found[Math.min(Math.max(at + by, 0), found.length - 1)];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  };
  const press = (el) => {
    if (el.matches("a, summary") || el.hasAttribute("data-presses")) el.click();
    else { el.focus(); say(`${el.textContent.trim()}: Enter presses it.`); }
  };
  const shown = (what) => all(what).find((el) => el.offsetParent && !el.disabled);
  // Only the keys that do something on this page.
  const help = () => {
    for (const el of all("#keys [data-when]")) el.hidden = !shown(el.dataset.when);
    one("#keys")?.showModal();
  };
  const keys = { "/": () => one("#jump")?.focus(), j: () => toRow(1), k: () => toRow(-1), "?": help,
    x: () => one("input[type=checkbox]", document.activeElement.closest("tr, li") || document.createElement("i"))?.click() };
  document.addEventListener("keydown", (event) => {
    const letters = document.body.dataset.shortcuts === "on" && !isField(document.activeElement);
    if (event.key === "Escape" && !one("dialog:modal")) { const out = shown("[data-esc]"); if (out) { event.preventDefault(); out.click(); } return; }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { const el = shown('[data-key="ctrl+enter"]'); if (el) { event.preventDefault(); press(el); } return; }
    if (!letters || event.ctrlKey || event.metaKey || event.altKey) return;
    if (Date.now() - awaitsPage < 1500) {
      awaitsPage = 0;
      const page = one(`[data-go="${CSS.escape(event.key)}"]`);
      if (page) { event.preventDefault(); page.click(); return; }
    }
    if (event.key === "g") { awaitsPage = Date.now(); return; }
    const found = shown(`[data-key="${CSS.escape(event.key)}"]`);
    if (!found && !keys[event.key]) return;
    event.preventDefault();
    if (found) press(found); else keys[event.key]();
  });
})();
