/** The page: the description of the model, then the two tabs. */

import { schema as fetchSchema } from "./api.js";
import { Answer } from "./answer.js";
import { one } from "./dom.js";
import { inNotebook } from "./page_host.js";
import { Imputation } from "./imputation.js";
import { counted } from "./formats.js";
import { wait } from "./latest_request.js";
import { Question } from "./question.js";
import { State } from "./state.js";
import { startTabs } from "./tabs.js";
import { startTheme } from "./theme.js";
import { adoptToken } from "./token.js";

const READING = 1000; // milliseconds between two questions whether the table is read

async function start() {
  document.documentElement.dataset.host = inNotebook ? "notebook" : "server";
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
  const answer = new Answer(state, schema);
  new Imputation(schema);
  one("main").hidden = false;
  if (schema.reading) await tableRead(answer);
}

/** Say that the server still reads its table, and ask again when it has it. */
async function tableRead(answer) {
  one("#reading").hidden = false;
  while ((await fetchSchema()).reading) await wait(READING);
  one("#reading").hidden = true;
  answer.refresh();
}

start().catch((error) => {
  one("#trouble").textContent = error.message;
});
