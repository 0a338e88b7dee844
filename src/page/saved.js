// The queries of the configuration: a list, and what makes the shown query one of them.

import { button, dialog, h, visible } from "./dom.js";

/** @typedef {import("./api.js").SavedQuery} SavedQuery */

/** @param {SavedQuery[]} saved @param {(change: import("./state.js").Change) => void} change */
export function openSaved(saved, change) {
  const box = dialog("Saved queries", h("ul.saved", ...saved.map(({ name, query, since, columns, about }) => h("li",
    button(visible(name), () => {
      box.close();
      change({ q: query, view: "records", ...(since ? { since, until: "" } : {}), ...(columns.length ? { cols: columns } : {}) });
    }, { class: "cell" }), h("p", visible(about ?? "")), h("code", visible(query))))),
  h("p.note.lead", "These are the blocks [[query]] of the configuration. Share has that of the query that is shown."));
}

/** A text of the configuration. @param {string} text */
const configText = (text) => JSON.stringify(text).replace(/\u007f/g, "\\u007f");

/** The block of the configuration for a query. @param {import("./state.js").State} state */
export function queryBlock({ q, since, cols }) {
  const age = /^(\d+[smhdw])+$/.test(since) || since === "today" || since === "yesterday" ? [`since = ${configText(since)}`] : [];
  return ["[[query]]", 'name = "…"', `query = ${configText(q)}`, ...age, ...(cols.length ? [`columns = [${cols.map(configText).join(", ")}]`] : [])].join("\n");
}
