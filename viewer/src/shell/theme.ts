// SPDX-License-Identifier: Apache-2.0
// Dark or light: as the system has it, until the user chooses.

export type Theme = "auto" | "light" | "dark";
const KEY = "mayfly.theme";

export function storedTheme(): Theme {
	try {
		const theme = localStorage.getItem(KEY);
		return theme === "light" || theme === "dark" ? theme : "auto";
	} catch {
		return "auto"; // a page without storage
	}
}

export function applyTheme(theme: Theme) {
	if (theme === "auto") delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = theme;
	try {
		if (theme === "auto") localStorage.removeItem(KEY);
		else localStorage.setItem(KEY, theme);
	} catch {
		// it holds until the page is closed
	}
	// Canvases read their colours when this comes.
	dispatchEvent(new Event("themechange"));
}
