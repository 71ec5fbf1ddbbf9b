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

for (const button of document.querySelectorAll("th[aria-sort] button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}

const words = document.getElementById("words");
const state = document.getElementById("state");
const rows = [...document.querySelectorAll("#tasks tbody tr")];

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = (state.value && row.dataset.state !== state.value) || !wanted.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = shown === rows.length ? "" : `${shown} of ${rows.length}`;
}

words.addEventListener("input", filter);
state.addEventListener("change", filter);
document.getElementById("filter").hidden = false;
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
