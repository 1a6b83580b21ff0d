/** The page: the description of the model, then the two tabs. */

import { schema as fetchSchema } from "./api.js";
import { Answer } from "./answer.js";
import { one } from "./dom.js";
import { Imputation } from "./imputation.js";
import { counted } from "./formats.js";
import { Question } from "./question.js";
import { State } from "./state.js";
import { startTabs } from "./tabs.js";
import { startTheme } from "./theme.js";
import { adoptToken } from "./token.js";

async function start() {
  startTheme(one("#theme"));
  adoptToken();
  const schema = await fetchSchema();
  const modelled = schema.columns.filter((column) => column.before);
  document.title = `${schema.name} · Harpoon Studio`;
  one("#name").textContent = schema.name;
  one("#about").textContent =
    `A model of ${counted(modelled.length, "column")}. Ask what-if questions, or fill the missing cells of a table.`;
  const state = new State(schema.limits.rows);
  startTabs(state);
  new Question(state, schema);
  new Answer(state, schema);
  new Imputation(schema);
  one("main").hidden = false;
}

start().catch((error) => {
  one("#trouble").textContent = error.message;
});
