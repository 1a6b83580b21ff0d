/**
 * What holds the page: a server, or a cell of a notebook, which puts the page into a frame.
 *
 * The frame of a notebook has a property `harpoon` with `fetch`, `address` and `onTheme`: the kernel answers requests.
 */

const notebook = window.frameElement?.harpoon ?? null;

export const inNotebook = notebook !== null;

/** What a person may do if nobody answers. */
export const UNREACHABLE = inNotebook
  ? "The kernel does not answer. Run the cell again."
  : "The server does not answer. Check that harpoon serve is still running.";

/** Send a request to the service; the path is relative. */
export const fetchFromService = notebook?.fetch ?? ((path, options) => fetch(new URL(path, document.baseURI), options));

/** Where the state of the page is kept: in its address, after the #, or by the notebook. */
export const address = notebook?.address ?? {
  read: () => location.hash.slice(1),
  write: (text) => history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search),
  onChange: (changed) => addEventListener("hashchange", changed),
};

/** Call a function with "light" or "dark", the colours of the notebook, now and when they change. */
export const onTheme = notebook?.onTheme;
