/** The token of the server: kept until the tab is closed, never in the address. */

import { one } from "./dom.js";
import { address } from "./page_host.js";

const KEY = "harpoon-token";
let dialogResult = null;

/** The token to send, if there is one. */
export const currentToken = () => sessionStorage.getItem(KEY);

/** Remove a token from the address, so that it is not passed on by mistake. */
export function adoptToken() {
  const given = new URLSearchParams(address.read());
  if (!given.has("token")) return;
  sessionStorage.setItem(KEY, given.get("token"));
  given.delete("token");
  address.write(String(given));
}

/** Ask for another token than the one that was refused. */
export function newToken(refused, message) {
  if (currentToken() !== refused) return Promise.resolve(); // already given, for another request
  dialogResult ??= showDialog(refused === null ? "" : message).finally(() => (dialogResult = null));
  return dialogResult;
}

function showDialog(message) {
  const dialog = one("#token");
  const field = one("input", dialog);
  one(".error", dialog).textContent = message;
  field.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    one("form", dialog).addEventListener(
      "submit",
      () => {
        sessionStorage.setItem(KEY, field.value.trim());
        resolve();
      },
      { once: true },
    );
  });
}
