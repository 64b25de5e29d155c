// SPDX-License-Identifier: Apache-2.0
// The way from the root to the zoomed node; each step leads back.
import { percentText } from "../format.ts";
import { pathTo, type Tree } from "./arrays.ts";
import { fit, spellings } from "./label.ts";

const STEPS = 5; // a long way shows its begin and its end

export function Crumbs({ tree, node, zoom }: { tree: Tree; node: number; zoom(node: number): void }) {
	const path = pathTo(tree, node);
	const left = path.length > STEPS + 1 ? path.length - STEPS : 0;
	const shown = left ? [0, ...path.slice(-STEPS)] : path;
	return (
		<nav class="flame-crumbs" aria-label="Zoomed to">
			<ol>
				{shown.map((one, i) => (
					<li key={one}>
						{left > 0 && i === 1 && <span title={`${left - 1} more`}>… › </span>}
						<button
							type="button"
							aria-current={one === node ? "location" : undefined}
							title={one ? tree.texts[tree.name[one]!] : "Everything"}
							onClick={() => zoom(one)}
						>
							{one ? fit(spellings(tree.texts[tree.name[one]!]!), 34) || "?" : "all"}
						</button>
					</li>
				))}
			</ol>
			{node > 0 && <span>{percentText(tree.width[node]!, tree.width[0]!)} of all</span>}
		</nav>
	);
}
