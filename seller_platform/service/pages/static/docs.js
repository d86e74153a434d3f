// Sends the requests of the documentation page and shows the answers as text.
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
  const wanted = location.hash && document.getElementById(location.hash.slice(1));
  if (!wanted || wanted.tagName !== "DETAILS") return;
  wanted.open = true;
  wanted.scrollIntoView();
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
window.addEventListener("hashchange", unfold);
unfold();
