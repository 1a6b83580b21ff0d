/** The token of a server that asks for one: kept as long as the browser tab, never in the address. */

import { one } from "./dom.js";

const KEY = "harpoon-token";
let asking = null;

/** The token to send, if there is one. */
export const currentToken = () => sessionStorage.getItem(KEY);

/** Take a token out of an address that was handed over with one, so that it is not sent on by mistake. */
export function adoptToken() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.has("token")) return;
  sessionStorage.setItem(KEY, given.get("token"));
  given.delete("token");
  history.replaceState(null, "", `#${given}`);
}

/** Wait until the reader has given another token than the one that was refused. */
export function newToken(refused, message) {
  if (currentToken() !== refused) return Promise.resolve(); // given in the meantime, for another question
  asking ??= asked(refused === null ? "" : message).finally(() => (asking = null));
  return asking;
}

function asked(message) {
  const dialog = one("#token");
  const field = one("input", dialog);
  one(".error", dialog).textContent = message;
  field.value = "";
  dialog.showModal();
  return new Promise((given) => {
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    one("form", dialog).addEventListener(
      "submit",
      () => {
        sessionStorage.setItem(KEY, field.value.trim());
        given();
      },
      { once: true },
    );
  });
}
