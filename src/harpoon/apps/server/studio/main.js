/** The page: what is known of the model, then its two tabs. */

import { schema as asked } from "./api.js";
import { Answer } from "./answer.js";
import { one } from "./dom.js";
import { Filling } from "./filling.js";
import { counted } from "./formats.js";
import { Question } from "./question.js";
import { State } from "./state.js";
import { startTabs } from "./tabs.js";
import { startTheme } from "./theme.js";
import { adoptToken } from "./token.js";

async function start() {
  startTheme(one("#theme"));
  adoptToken();
  const schema = await asked();
  const modelled = schema.columns.filter((column) => column.before);
  document.title = `${schema.name} · Harpoon Studio`;
  one("#name").textContent = schema.name;
  one("#about").textContent =
    `A model of ${counted(modelled.length, "column")}. Ask it what goes with what, or let it fill a table's holes.`;
  const state = new State(schema.limits.rows);
  startTabs(state);
  new Question(state, schema);
  new Answer(state, schema);
  new Filling(schema);
  one("main").hidden = false;
}

start().catch((error) => {
  one("#trouble").textContent = error.message;
});
