// Keeps open pages fresh, and answers keys. Without it every page works: it is only a comfort.
"use strict";

const page = document.body.dataset;

// Fetches the page again and replaces the parts marked data-live. Nothing is replaced while somebody types in it, has it
// selected or has a part of it open; and nothing while nobody looks. False: there was no answer.
async function refresh() {
  if (document.hidden || document.querySelector("dialog[open]")) return true;
  const note = document.getElementById("freshness");
  try {
    const options = { headers: { "X-Refresh": "1" }, redirect: "manual", signal: AbortSignal.timeout(60000) };
    const answer = await fetch(location.href, options);
    if (answer.type === "opaqueredirect") { location.reload(); return true; }
    if (!answer.ok) throw new Error("status " + answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next && next.innerHTML !== part.innerHTML && !isInUse(part)) replace(part, next);
    }
    if (note) { note.textContent = ""; note.className = "freshness"; }
    return true;
  } catch (error) {
    if (note) { note.textContent = "no answer: the figures are old"; note.className = "freshness is-old"; }
    return false;
  }
}

function isInUse(part) {
  const selection = getSelection();
  const isSelected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  return isSelected || part.querySelector("details[open]") !== null || part.matches(":has(input:focus, textarea:focus, select:focus)");
}

function replace(part, next) {
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  part.innerHTML = next.innerHTML;
  if (focused) {
    const again = [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused);
    if (again) again.focus({ preventScroll: true });
  }
}

// The next refresh begins some time after the end of the last one, and after each without an answer twice as late.
const seconds = Number(page.refresh);
let failures = 0;
function refreshLater() {
  setTimeout(async () => {
    if (!document.hidden) failures = await refresh() ? 0 : failures + 1;
    refreshLater();
  }, 1000 * Math.min(seconds * 2 ** failures, Math.max(seconds, 60)));
}
if (seconds > 0 && document.querySelector("[data-live]")) refreshLater();

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
