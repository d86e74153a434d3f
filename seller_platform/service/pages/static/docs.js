// The documentation page: sends requests and shows the answers as text, searches, and marks the section in view.
"use strict";

const token = document.getElementById("token");
const LONGEST_SHOWN = 100000;

function shown(text) {
  try {
    text = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Not JSON: shown as it is.
  }
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}\n… ${text.length - LONGEST_SHOWN} more characters` : text;
}

async function send(form) {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value !== "") query.append(name, value);
  }
  const path = form.getAttribute("action");
  const target = query.size ? `${path}?${query}` : path;
  const headers = { Accept: "application/json" };
  if (token.value.trim()) headers.Authorization = `Bearer ${token.value.trim()}`;
  const began = performance.now();
  try {
    const answer = await fetch(target, { headers, cache: "no-store", credentials: "omit" });
    const text = await answer.text();
    const took = Math.round(performance.now() - began);
    return `GET ${target}\n${answer.status} ${answer.statusText}, ${took} ms, request id ${answer.headers.get("x-request-id")}\n\n${shown(text)}`;
  } catch (error) {
    return `GET ${target}\n${error.message}`;
  }
}

function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest("[hidden], .only-hits")) clearSearch();
  if (target.tagName === "DETAILS") target.open = true;
  target.scrollIntoView();
}

document.getElementById("token-form").hidden = false;
document.getElementById("token-form").addEventListener("submit", (event) => event.preventDefault());
for (const form of document.querySelectorAll("form.try")) {
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [button, output] = [form.querySelector("button"), form.querySelector("output")];
    button.disabled = true;
    output.textContent = "…";
    output.parentElement.hidden = false;
    output.textContent = await send(form);
    button.disabled = false;
  });
}

// The menu is open beside the text, and closed above it.
const menu = document.querySelector(".menu");
const side = document.querySelector(".side");
const isBeside = matchMedia("(min-width: 56rem)");
const links = new Map([...menu.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));

function placeMenu() {
  menu.open = isBeside.matches;
}

function markCurrent() {
  const TOP = 48;
  const shown = [...links.keys()].map((id) => document.getElementById(id)).filter((target) => target.getClientRects().length);
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
  const above = shown.filter((target) => target.getBoundingClientRect().top <= TOP);
  const aimed = isAtEnd && shown.find((target) => `#${target.id}` === location.hash);
  const current = aimed || above.at(-1) || shown[0];
  for (const [id, link] of links) {
    if (id === current?.id) link.setAttribute("aria-current", "location");
    else link.removeAttribute("aria-current");
  }
  const link = links.get(current?.id);
  if (!link || !isBeside.matches) return;
  const [inner, outer] = [link.getBoundingClientRect(), side.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) side.scrollTop += inner.top - outer.top - outer.height / 3;
}

let isMarking = false;
function markSoon() {
  if (isMarking) return;
  isMarking = true;
  requestAnimationFrame(() => {
    isMarking = false;
    markCurrent();
  });
}

// Search: an endpoint stays when each word is in its title, its text, or its parameters and fields.
const search = document.getElementById("search");
const query = document.getElementById("query");
const found = document.getElementById("found");
const endpoints = [...document.querySelectorAll("details.endpoint")].map((element) => ({
  element,
  title: element.querySelector("summary").textContent.toLowerCase(),
  text: element.textContent.toLowerCase(),
  rows: [...element.querySelectorAll(".fields tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() })),
  wasOpened: false,
}));

function counted(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}

function showMatches() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (text) => words.every((word) => text.includes(word));
  let [matches, fields] = [0, 0];
  for (const endpoint of endpoints) {
    const isMatch = holds(endpoint.text);
    const hits = words.length && isMatch ? endpoint.rows.filter(({ text }) => holds(text)) : [];
    for (const { row } of endpoint.rows) row.classList.remove("hit");
    for (const { row } of hits) row.classList.add("hit");
    endpoint.element.hidden = !isMatch;
    links.get(endpoint.element.id).parentElement.hidden = !isMatch;
    const opens = hits.length > 0 && !holds(endpoint.title);
    if (opens && !endpoint.element.open) {
      endpoint.element.open = endpoint.wasOpened = true;
      endpoint.element.classList.add("only-hits");
    } else if (!opens && endpoint.wasOpened) {
      endpoint.element.open = endpoint.wasOpened = false;
      endpoint.element.classList.remove("only-hits");
    }
    matches += isMatch;
    fields += hits.length;
  }
  document.getElementById("token-form").hidden = words.length > 0;
  for (const section of document.querySelectorAll(".guide")) {
    section.hidden = words.length > 0;
    const link = links.get(section.querySelector("h2")?.id);
    if (link) link.parentElement.hidden = section.hidden;
  }
  for (const section of document.querySelectorAll(".area")) {
    section.hidden = !section.querySelector(".endpoint:not([hidden])");
    links.get(section.querySelector("h2").id).parentElement.hidden = section.hidden;
  }
  if (!words.length) found.textContent = "";
  else if (!matches) found.textContent = "Nothing matches. Try fewer or shorter words.";
  else found.textContent = `${counted(matches, "endpoint", "endpoints")}, ${counted(fields, "parameter or field", "parameters or fields")}`;
  markSoon();
}

function clearSearch() {
  query.value = "";
  showMatches();
}

search.hidden = false;
search.addEventListener("submit", (event) => {
  event.preventDefault();
  document.querySelector(".endpoint:not([hidden]) summary")?.focus();
});
query.addEventListener("input", showMatches);
query.addEventListener("keydown", (event) => {
  if (event.key === "Escape") clearSearch();
});
for (const { element } of endpoints) {
  element.addEventListener("toggle", () => {
    if (!element.open) element.classList.remove("only-hits");
    markSoon();
  });
}
isBeside.addEventListener("change", placeMenu);
addEventListener("scroll", markSoon, { passive: true });
addEventListener("hashchange", unfold);
menu.addEventListener("click", (event) => {
  if (event.target.closest("a") && !isBeside.matches) menu.open = false;
});
if (query.value) showMatches(); // kept by the browser over a reload
placeMenu();
unfold();
markCurrent();
