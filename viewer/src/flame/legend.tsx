// SPDX-License-Identifier: Apache-2.0
// What the colours mean. Modules are those of the boxes in the window.
import { shortPath } from "./label.ts";
import { LIBRARY, moduleSlot, OTHER, RUNTIME, STRENGTHS, type Palette } from "./palette.ts";

interface Props {
	palette: Palette;
	modules: string[];
	difference: boolean;
}

function Patch({ fill, name, title }: { fill: string; name: string; title?: string }) {
	return (
		<li title={title}>
			<i style={{ background: fill }} />
			{name}
		</li>
	);
}

export function Legend({ palette, modules, difference }: Props) {
	const fill = (slot: number) => palette.modules[slot]![1]!.fill;
	return (
		<footer class="flame-legend">
			<ul aria-label="Colours">
				{difference ? (
					<>
						<Patch fill={palette.changes[1][STRENGTHS - 2]!.fill} name="more than before" />
						<Patch fill={palette.changes[0][STRENGTHS - 2]!.fill} name="less" />
						<Patch fill={palette.changes[0][0]!.fill} name="within noise" />
					</>
				) : palette.forced ? null : (
					<>
						{modules.map((one) => (
							<Patch key={one} fill={fill(moduleSlot(one))} name={shortPath(one, 1).replace("…/", "")}
								title={one} />
						))}
						<Patch fill={fill(LIBRARY)} name="language's library" />
						<Patch fill={fill(RUNTIME)} name="runtime, allocator" />
						<Patch fill={fill(OTHER)} name="entry, small ones" />
					</>
				)}
			</ul>
			<span class="flame-hint">
				click: zoom · double click: focus · right click: menu · ctrl + wheel: zoom
			</span>
		</footer>
	);
}
