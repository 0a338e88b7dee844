// The alerts that last: a button in the bar, and a list with a way to their records.

import * as api from "./api.js";
import { button, byId, dialog, h, plural, visible } from "./dom.js";
import { grouped } from "./number.js";
import { full } from "./time.js";

/** How often the alerts are read, in milliseconds. */
const ALERTS_INTERVAL = 15000;

/** @typedef {{alert: string, labels: Record<string, string>, annotations: Record<string, string>, value: number, since: string, query: string, records: string, from: string}} Alert */

/** @param {Alert} alert @param {boolean} utc @param {(alert: Alert) => void} show */
function item(alert, utc, show) {
  const labels = Object.entries(alert.labels).filter(([name]) => name !== "alertname").map(([name, value]) => `${name}=${value}`).join(" ");
  const text = alert.annotations.summary ?? alert.annotations.description ?? `${alert.query}: ${grouped(String(alert.value).replace(/\.0$/, ""))}`;
  return h("li", h("h3", visible(`${alert.alert} ${labels}`)), h("p", visible(text)),
    h("p.note", `Since ${full(Date.parse(alert.since), utc)}. `, button("Show the records", () => show(alert))));
}

/** Shows the button while there are alerts. @param {{utc: () => boolean, show: (q: string, since: string) => void}} uses */
export function watchAlerts({ utc, show }) {
  const place = byId("alerts");
  /** @type {Alert[]} */
  let alerts = [];
  place.addEventListener("click", () => {
    const box = dialog("Alerts", h("ul.alerts", ...alerts.map((alert) => item(alert, utc(), ({ records, from }) => {
      box.close();
      show(records, from);
    }))));
  });
  const look = async () => {
    if (document.hidden) return;
    alerts = await api.alerts().catch(() => []);
    place.hidden = !alerts.length;
    place.textContent = plural(alerts.length, "alert");
  };
  setInterval(look, ALERTS_INTERVAL);
  return look();
}
