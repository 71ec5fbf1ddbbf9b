"use strict";

const collator = new Intl.Collator(undefined, { numeric: true });

function valueOf(row, column) {
  const raw = row.cells[column].dataset.v;
  if (raw === undefined) return null;
  const number = Number(raw);
  return raw.trim() !== "" && Number.isFinite(number) ? number : raw;
}

/* Numbers before words; what is not known comes last either way. */
function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return sign * (typeof one === "number" ? one - other : collator.compare(one, other));
}

function sortBy(head) {
  const table = head.closest("table");
  const column = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row, column), row]);
  rows.sort((one, other) => compare(one[0], other[0], down ? -1 : 1));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

function filter() {
  const words = document.getElementById("words");
  const state = document.getElementById("state");
  const rows = [...document.querySelectorAll("#tasks tbody tr")];
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = (state.value && row.dataset.state !== state.value) || !wanted.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = shown === rows.length ? "" : `${shown} of ${rows.length}`;
}

function begin() {
  for (const button of document.querySelectorAll("th[aria-sort] button")) {
    button.addEventListener("click", () => sortBy(button.closest("th")));
  }
  document.getElementById("words").addEventListener("input", filter);
  document.getElementById("state").addEventListener("change", filter);
  document.getElementById("filter").hidden = false;
}

begin();
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

/* A page that is served follows its deck: what the reader has opened, sorted and typed stays. */

const PARTS = ["header", "main", "footer"];

function becomes(newer) {
  const named = (details) => details.querySelector("summary").textContent;
  const open = new Set([...document.querySelectorAll("details[open]")].map(named));
  const heads = [...document.querySelectorAll("th[aria-sort]")].map((head) => head.getAttribute("aria-sort"));
  const typed = document.getElementById("words");
  const [words, state, there] = [typed.value, document.getElementById("state").value, document.activeElement === typed];
  const place = typed.selectionStart;
  const [across, down] = [scrollX, scrollY];
  for (const part of PARTS) document.querySelector(part).replaceWith(newer.querySelector(part));
  document.title = newer.title;
  begin();
  for (const details of document.querySelectorAll("details")) details.open = open.has(named(details));
  document.querySelectorAll("th[aria-sort]").forEach((head, at) => {
    for (let times = { ascending: 1, descending: 2 }[heads[at]] ?? 0; times > 0; times--) sortBy(head);
  });
  document.getElementById("state").value = state;
  const line = document.getElementById("words");
  line.value = words;
  filter();
  if (there) { line.focus(); line.setSelectionRange(place, place); }
  scrollTo(across, down);
}

let seen = "";

async function look() {
  let trouble = "";
  try {
    const answer = await fetch(location.pathname, { cache: "no-cache" });
    const text = await answer.text();
    if (!answer.ok) trouble = text.trim();
    else if (text !== seen) {
      becomes(new DOMParser().parseFromString(text, "text/html"));
      seen = text;
    }
  } catch {
    trouble = "nothing new: gpudeck report --serve is not reached";
  }
  document.body.dataset.trouble = trouble;
}

if (document.body.dataset.live) {
  look();
  setInterval(look, 1000 * document.body.dataset.live);
}
