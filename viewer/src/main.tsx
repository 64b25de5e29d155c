// SPDX-License-Identifier: Apache-2.0
// Where the page begins.
import { render } from "preact";
import { openFile, openPage, savedState } from "./engine/open.ts";
import { App } from "./shell/app.tsx";
import { firstHash } from "./shell/location.ts";
import { applyTheme, storedTheme } from "./shell/theme.ts";
import "./colours.css";
import "./page.css";

applyTheme(storedTheme());
const first = savedState() || firstHash();
if (first && !location.hash) history.replaceState(null, "", first);
const page = document.getElementById("page") ?? document.body;
page.replaceChildren();
render(<App openPage={openPage} openFile={openFile} />, page);
