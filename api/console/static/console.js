// Keeps a page current. The stream only says that something changed; the page then
// fetches the fragment it may see. When the stream has been silent for more than
// five seconds the page greys out and counts how old it is: a calm green page that
// is dead is worse than none.
//
// What a person is typing in is never replaced. When what they are about to sign
// has changed meanwhile, the page says so and does not let them send it.
"use strict";
(() => {
  const CUT_AFTER = 5000; // ms without a word from the stream
  const MIN_GAP = 250;    // ms between two fetches
  const main = document.getElementById("main");
  const byID = (id) => document.getElementById(id);
  const note = byID("stream"), noteAge = byID("stream-age"), live = byID("live"), alertBox = byID("alert");
  const title = document.title.replace(/^\(\d+\) /, "");
  let heard = Date.now();  // last word from the stream
  let shown = Date.now();  // last fragment drawn
  let skew = 0;            // server's clock minus this one
  let busy = false, again = false, lastFetch = 0;

  const short = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m";
    if (s < 172800) return Math.floor(s / 3600) + "h";
    return Math.floor(s / 86400) + "d";
  };

  const left = (ms) => {
    const s = Math.max(0, Math.round(ms / 1000));
    const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
    if (h) return h + "h" + m + "m";
    return (m ? m + "m" : "") + (s % 60) + "s";
  };

  // Where the focus is: by id where there is one, else by place.
  const place = () => {
    const el = document.activeElement;
    if (!el || !main.contains(el)) return null;
    if (el.id) return { id: el.id };
    const steps = [];
    for (let e = el; e !== main; e = e.parentElement) steps.unshift([...e.parentElement.children].indexOf(e));
    return { steps };
  };

  const focus = (at) => {
    if (!at || (document.activeElement && main.contains(document.activeElement))) return;
    let el = at.id ? byID(at.id) : main;
    if (at.steps) for (const i of at.steps) el = el && el.children[i];
    if (el && el.focus) el.focus({ preventScroll: true });
  };

  // put replaces what an element holds, and keeps what a person has done to it.
  const put = (old, fresh) => {
    if (old.innerHTML === fresh.innerHTML) return; // not read aloud again
    const scrolls = [...old.querySelectorAll(".scroll")].map((el) => el.scrollLeft);
    for (const el of fresh.querySelectorAll("input[id]")) {
      const was = byID(el.id);
      if (was && old.contains(was)) el.checked = was.checked;
    }
    for (const el of fresh.querySelectorAll("details[id]")) {
      const was = byID(el.id);
      if (was) el.open = was.open;
    }
    const a = old.querySelector(".events"), b = fresh.querySelector(".events");
    if (a && b && a.innerHTML === b.innerHTML) b.replaceWith(a);
    for (const { name, value } of [...fresh.attributes]) old.setAttribute(name, value);
    old.replaceChildren(...fresh.childNodes);
    [...old.querySelectorAll(".scroll")].forEach((el, i) => { el.scrollLeft = scrolls[i] || 0; });
  };

  // touched reports whether a person has begun to fill in a form.
  const touched = (acts) => {
    const fields = [...acts.querySelectorAll("textarea, input:not([type])")];
    const boxes = [...main.querySelectorAll("input[type=checkbox]")];
    return acts.contains(document.activeElement) ||
      fields.some((el) => el.value !== "") || boxes.some((el) => el.checked !== el.defaultChecked);
  };

  const stale = (phase) => {
    const box = byID("changed");
    if (!box || !box.hidden) return;
    if (phase && phase !== "proposed" && phase !== "fencing") byID("changed-title").textContent = "It was decided meanwhile: reload to see how";
    for (const el of document.querySelectorAll("[data-signs]")) el.disabled = true;
    box.hidden = false;
  };

  const parts = (next) => {
    // The forms first: to see the new gates beside them is not yet to have seen them.
    const acts = byID("acts"), fresh = next.querySelector("#acts"), head = next.querySelector("#head");
    if (acts && fresh && acts.dataset.acts !== fresh.dataset.acts) {
      if (!touched(acts)) put(acts, fresh);
      else if (acts.dataset.sign !== fresh.dataset.sign) stale(head && head.dataset.phase);
    }
    for (const el of next.querySelectorAll("[data-part]")) {
      const old = el.id && byID(el.id);
      if (old) put(old, el);
    }
  };

  const swap = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html").body;
    const at = place();
    if (main.dataset.parts !== undefined) parts(next);
    else put(main, next);
    focus(at);
    pending();
  };

  // pending shows in title and icon how many decisions wait, and says a new one aloud.
  const known = new Set();
  let first = true;
  const pending = () => {
    const box = byID("decisions");
    if (!box) return;
    const n = Number(box.dataset.pending) || 0;
    document.title = (n ? "(" + n + ") " : "") + title;
    const icon = byID("icon"), href = "/ui/icon/" + n, count = byID("count");
    if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
    count.textContent = n;
    count.hidden = n === 0;
    for (const el of box.querySelectorAll("[data-decision]")) {
      if (!known.has(el.dataset.decision) && !first) alertBox.textContent = "Decision needed: " + el.dataset.decision;
      known.add(el.dataset.decision);
    }
    first = false;
  };

  const refresh = async () => {
    if (!main.dataset.fragment) return;
    if (busy) { again = true; return; }
    busy = true;
    try {
      const wait = lastFetch + MIN_GAP - Date.now();
      if (wait > 0) await new Promise((r) => setTimeout(r, wait));
      lastFetch = Date.now();
      const res = await fetch(main.dataset.fragment, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (res.status === 401) { location.reload(); return; }
      if (!res.ok) return;
      const date = Date.parse(res.headers.get("Quorate-Now") || "");
      if (date) skew = date - Date.now();
      swap(await res.text());
      shown = Date.now();
    } catch (e) {
      // The stream's silence says it already.
    } finally {
      busy = false;
      if (again) { again = false; refresh(); }
      tick();
    }
  };

  // Who has acknowledged is not in the log, so no change tells of it.
  const underWay = () => {
    const head = byID("head");
    return head && (head.dataset.phase === "fencing" || head.dataset.phase === "approved");
  };

  const tick = () => {
    const now = Date.now();
    const cut = now - heard > CUT_AFTER;
    document.body.classList.toggle("cut", cut);
    note.hidden = !cut;
    if (cut) noteAge.textContent = short(now - Math.max(heard, shown));
    live.textContent = cut ? "stream cut" : "live";
    for (const el of document.querySelectorAll("[data-since]")) el.textContent = short(now + skew - Number(el.dataset.since));
    for (const el of document.querySelectorAll("[data-ago]")) el.textContent = short(now + skew - Number(el.dataset.ago)) + " ago";
    for (const el of document.querySelectorAll("[data-until]")) el.textContent = left(Number(el.dataset.until) - now - skew);
    const clock = byID("clock");
    if (clock) clock.textContent = new Date(now + skew).toISOString().slice(11, 19);
  };

  let source;
  const open = () => {
    source = new EventSource("/ui/stream");
    source.addEventListener("change", () => { heard = Date.now(); refresh(); });
    source.addEventListener("tick", () => { heard = Date.now(); if (underWay()) refresh(); tick(); });
    source.onopen = () => { heard = Date.now(); refresh(); };
    source.onerror = () => {
      // A refused stream is closed for good by the browser; ask again ourselves.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    };
  };
  const outcome = byID("notice");
  if (outcome) outcome.focus();
  pending();
  open();
  setInterval(tick, 1000);
  tick();
})();
