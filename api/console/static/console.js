// Keeps the overview current. The stream only says that something changed; the
// page then fetches the fragment it may see. When the stream has been silent for
// more than five seconds the page greys out and counts how old it is: a calm
// green page that is dead is worse than none.
"use strict";
(() => {
  const CUT_AFTER = 5000; // ms without a word from the stream
  const MIN_GAP = 250;    // ms between two fetches
  const main = document.getElementById("overview");
  const note = document.getElementById("stream");
  const noteAge = document.getElementById("stream-age");
  const live = document.getElementById("live");
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

  const path = (el) => {
    const steps = [];
    for (; el && el !== main; el = el.parentElement) steps.unshift([...el.parentElement.children].indexOf(el));
    return steps;
  };

  const swap = (html) => {
    const active = main.contains(document.activeElement) ? path(document.activeElement) : null;
    const scrolls = [...main.querySelectorAll(".scroll")].map((el) => el.scrollLeft);
    const next = new DOMParser().parseFromString(html, "text/html").body;
    // Lists that are read aloud are only touched when they changed.
    const a = main.querySelector(".events"), b = next.querySelector(".events");
    if (a && b && a.innerHTML === b.innerHTML) b.replaceWith(a);
    main.replaceChildren(...next.childNodes);
    [...main.querySelectorAll(".scroll")].forEach((el, i) => { el.scrollLeft = scrolls[i] || 0; });
    if (active) {
      let el = main;
      for (const i of active) el = el && el.children[i];
      if (el && el.focus) el.focus({ preventScroll: true });
    }
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const wait = lastFetch + MIN_GAP - Date.now();
      if (wait > 0) await new Promise((r) => setTimeout(r, wait));
      lastFetch = Date.now();
      const res = await fetch("/ui/overview", { headers: { Accept: "text/html" }, cache: "no-store" });
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

  const tick = () => {
    const now = Date.now();
    const cut = now - heard > CUT_AFTER;
    document.body.classList.toggle("cut", cut);
    note.hidden = !cut;
    if (cut) noteAge.textContent = short(now - Math.max(heard, shown));
    live.textContent = cut ? "stream cut" : "live";
    for (const el of document.querySelectorAll("[data-since]")) el.textContent = short(now + skew - Number(el.dataset.since));
    const clock = document.getElementById("clock");
    if (clock) clock.textContent = new Date(now + skew).toISOString().slice(11, 19);
  };

  let source;
  const open = () => {
    source = new EventSource("/ui/stream");
    source.addEventListener("change", () => { heard = Date.now(); refresh(); });
    source.addEventListener("tick", () => { heard = Date.now(); tick(); });
    source.onopen = () => { heard = Date.now(); refresh(); };
    source.onerror = () => {
      // A refused stream is closed for good by the browser; ask again ourselves.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    };
  };
  open();
  setInterval(tick, 1000);
  tick();
})();
