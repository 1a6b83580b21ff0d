/** Two tabs: arrow keys move between them, and the address names the open one. */

import { one } from "./dom.js";

const NAMES = ["ask", "fill"];

export function startTabs(state) {
  for (const name of NAMES) {
    const tab = tabOf(name);
    tab.addEventListener("click", () => state.change({ tab: name }));
    tab.addEventListener("keydown", ({ key }) => {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      const other = NAMES.find((one) => one !== name);
      state.change({ tab: other });
      tabOf(other).focus();
    });
  }
  state.addEventListener("change", () => show(state.values.tab));
  show(state.values.tab);
}

function show(open) {
  for (const name of NAMES) {
    tabOf(name).setAttribute("aria-selected", String(name === open));
    tabOf(name).tabIndex = name === open ? 0 : -1;
    one(`#${name}`).hidden = name !== open;
  }
}

const tabOf = (name) => one(`#tab-${name}`);
