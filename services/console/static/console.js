// Keeps what htmx swaps out of the way of somebody who reads or types, and answers keys. Every page works without it.
"use strict";

// The element #live asks for the page again when the console says that something changed (htmx, server-sent events).
// What comes replaces the parts marked hx-swap-oob.
const isLive = (event) => event.detail.elt && event.detail.elt.id === "live";
addEventListener("htmx:configRequest", (event) => {
  if (isLive(event)) event.detail.path = location.pathname + location.search;
});
// What the user asks for goes first: a refresh that was asked before it would bring the old table back.
const asked = new Set();
addEventListener("htmx:beforeRequest", (event) => {
  const live = document.getElementById("live");
  if (!isLive(event)) { asked.add(event.detail.xhr); if (live) htmx.trigger(live, "htmx:abort"); return; }
  if (asked.size || document.hidden || document.querySelector("dialog[open]")) event.preventDefault();
});
addEventListener("htmx:afterRequest", (event) => { asked.delete(event.detail.xhr); });
for (const failure of ["htmx:sendError", "htmx:responseError", "htmx:timeout"])
  addEventListener(failure, (event) => { if (isLive(event)) tell("no answer: the figures are old"); });
addEventListener("htmx:beforeSwap", (event) => { if (isLive(event)) tell(""); });

function tell(note) {
  const place = document.getElementById("freshness");
  if (place) { place.textContent = note; place.classList.toggle("is-old", note !== ""); }
}

// A part that is the same, or that somebody types in, has selected or has something of it open, stays as it is. The
// focus stays on the same link, and a region where it was scrolled to.
let left = [];
addEventListener("htmx:oobBeforeSwap", (event) => {
  const part = event.detail.target, next = event.detail.fragment.firstElementChild;
  if (!next || sourceOf(next) === sourceOf(part) || isInUse(part)) { event.detail.shouldSwap = false; return; }
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  left.push({ id: part.id, focused, scrolled: regions(part).map((each) => [each.scrollLeft, each.scrollTop]) });
});
addEventListener("htmx:oobAfterSwap", () => {
  for (const { id, focused, scrolled } of left.splice(0)) {
    const part = document.getElementById(id);
    if (!part) continue;
    regions(part).forEach((each, number) => { [each.scrollLeft, each.scrollTop] = scrolled[number] || [0, 0]; });
    const link = focused && [...part.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused);
    if (link) link.focus({ preventScroll: true });
  }
});
const regions = (part) => [part, ...part.querySelectorAll(".scroll, .graph")];
const sourceOf = (part) => {
  const charts = [...part.querySelectorAll("[data-chart]")];
  return charts.length ? charts.map((each) => each.dataset.chart).join() : part.innerHTML;
};

function isInUse(part) {
  const selection = getSelection();
  const isSelected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  return isSelected || part.querySelector("details[open]:not([data-open])") !== null
    || part.matches(":has(.u-over:hover, .is-zoomed)") || part.matches(":has(input:focus, textarea:focus, select:focus)");
}

// A page that nobody sees holds no connection: a browser has few for a host.
let source = null;
if (window.htmx) htmx.createEventSource = (url) => (source = new EventSource(url));
document.addEventListener("visibilitychange", () => {
  const live = document.getElementById("live");
  if (!live || !window.htmx) return;
  if (document.hidden) { if (source) source.close(); return; }
  const fresh = live.cloneNode();
  live.replaceWith(fresh);
  htmx.process(fresh);
  htmx.trigger(fresh, "sse:changed");
});

// A graph that is wider or higher than its region begins where its own job is.
const own = document.querySelector(".graph .is-this");
if (own) {
  const region = own.closest(".graph"), box = own.getBoundingClientRect(), around = region.getBoundingClientRect();
  region.scrollLeft += box.left + box.width / 2 - around.left - around.width / 2;
  region.scrollTop += box.top + box.height / 2 - around.top - around.height / 2;
}

// Keys: / searches, ? shows the keys, g and then a letter leads to a page.
let waitsForLetter = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  const help = document.getElementById("keys");
  const places = { f: "/", c: "/containers", a: "/alerts" };
  if (waitsForLetter && places[event.key]) { location.href = places[event.key]; return; }
  waitsForLetter = event.key === "g";
  if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  }
  if (event.key === "?" && help) { if (help.open) help.close(); else help.showModal(); }
});

// A form is sent once.
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button[type=submit]");
  if (event.target.method === "post" && button) setTimeout(() => { button.disabled = true; button.dataset.busy = "1"; });
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[data-busy]")) button.disabled = false;
});
