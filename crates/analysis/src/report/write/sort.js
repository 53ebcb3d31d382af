"use strict";
// Makes a button of each head of a column; a second press turns the order round. Without it the tables stay as they are.
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return null;
    if (cell.dataset.sort !== undefined) return Number(cell.dataset.sort);
    const text = cell.textContent.trim();
    return text === "" || text === "–" ? null : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sort = (table, column, down) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ row, place, key: value(row, column) }));
    rows.sort((a, b) => {
      // What was not measured stays at the end, whichever way.
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      return (down ? -1 : 1) * compare(a.key, b.key) || a.place - b.place;
    });
    body.append(...rows.map((each) => each.row));
  };
  for (const table of document.querySelectorAll("table")) {
    if (!table.tHead || !table.tBodies[0] || table.tBodies[0].rows.length < 2) continue;
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const order = head.getAttribute("aria-sort");
        const first = head.classList.contains("n") ? "descending" : "ascending";
        const next = order === "none" ? first : order === "descending" ? "ascending" : "descending";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", next);
        sort(table, column, next === "descending");
      });
    });
  }
  // A link into something folded opens it, a link to something folded too.
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (const part of target.querySelectorAll(":scope > details.part")) part.open = true;
    for (let at = target.parentElement; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView({ block: target.tagName === "TR" ? "center" : "start", inline: "nearest" });
  };
  addEventListener("hashchange", open);
  if (location.hash) open();
  // Paper unfolds nothing.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
})();
