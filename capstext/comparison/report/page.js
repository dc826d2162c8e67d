
"use strict";
// A click on a head sorts its table by that column, another click turns the order; what has no number stays last.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const column = head.cellIndex, down = head.getAttribute("aria-sort") !== "descending";
    const cell = (row) => row.cells[column];
    const words = [...body.rows].every((row) => !cell(row).dataset.order);
    const compare = (a, b) => {
      const [one, two] = [cell(a), cell(b)];
      if (words) return (down ? 1 : -1) * two.textContent.localeCompare(one.textContent);
      const [left, right] = [one.dataset.order, two.dataset.order];
      if (left === undefined || right === undefined) return (left === undefined) - (right === undefined);
      return (down ? 1 : -1) * (right - left);
    };
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...[...body.rows].sort(compare));
  });
}
