// SPDX-License-Identifier: Apache-2.0
// Where the page begins.
import { render } from "preact";
import { openFile, openPage } from "./engine/open.ts";
import { App } from "./shell/app.tsx";
import { applyTheme, storedTheme } from "./shell/theme.ts";
import "./colours.css";
import "./page.css";

applyTheme(storedTheme());
const page = document.getElementById("page") ?? document.body;
page.replaceChildren();
render(<App openPage={openPage} openFile={openFile} />, page);
