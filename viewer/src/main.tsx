// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Engine } from "./engine/engine.ts";
import { openFiles, openPage } from "./engine/open.ts";
import type { Info } from "./view.ts";
import "./page.css";

function Page() {
	const [engine, setEngine] = useState<Engine | undefined>();
	const [info, setInfo] = useState<Info | undefined>();
	const [error, setError] = useState("");
	const show = (opening: Promise<Engine | undefined>): void => {
		opening.then((opened) => {
			setEngine(opened);
			setError("");
			return opened?.ask<Info>("info").then(setInfo);
		}).catch((failure: Error) => setError(failure.message));
	};
	useEffect(() => show(openPage()), []);
	return (
		<main
			onDragOver={(event) => event.preventDefault()}
			onDrop={(event) => {
				event.preventDefault();
				const file = event.dataTransfer?.files[0];
				if (file) show(openFiles(file));
			}}
		>
			{error && <p role="alert">{error}</p>}
			{!engine && (
				<input type="file" aria-label="Trace" onChange={(event) => {
					const file = event.currentTarget.files?.[0];
					if (file) show(openFiles(file));
				}} />
			)}
			{info && <pre>{JSON.stringify(info, null, "  ")}</pre>}
		</main>
	);
}

render(<Page />, document.getElementById("page")!);
