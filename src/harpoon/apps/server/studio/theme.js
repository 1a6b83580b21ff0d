/** Light or dark colours: those of the system, those that were chosen on this machine, or those of the notebook. */

import { onTheme } from "./page_host.js";

const KEY = "harpoon-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Let a button switch between the two. */
export function startTheme(button) {
  if (onTheme) {
    button.hidden = true;
    onTheme((theme) => (document.documentElement.dataset.theme = theme));
    return;
  }
  apply(localStorage.getItem(KEY));
  button.addEventListener("click", () => {
    const wanted = isDark() ? "light" : "dark";
    const system = dark.matches ? "dark" : "light";
    if (wanted === system) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, wanted);
    apply(localStorage.getItem(KEY));
  });
  dark.addEventListener("change", () => label(button));
  label(button);

  function apply(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    label(button);
  }
}

const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

const label = (button) => button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
