// SPDX-License-Identifier: Apache-2.0
// The box that explains the node under the pointer. Screen readers have the mirror instead.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Tree } from "./arrays.ts";
import { percentText } from "../format.ts";
import { amountText, changeText, shortPath } from "./label.ts";

const KINDS = ["", "library of the language", "runtime or allocator", "entry", "no code"];

interface Props {
	tree: Tree;
	node: number;
	x: number;
	y: number;
	blocks: boolean;
}

/** 95 %. */
function error(stderr: number, blocks: boolean): string {
	return stderr > 0 ? ` ± ${amountText(1.96 * stderr, blocks)}` : "";
}

export function place(tree: Tree, node: number): string {
	const file = tree.texts[tree.file[node]!]!;
	const line = tree.line[node]!;
	return file ? shortPath(file, 3) + (line ? `:${line}` : "") : "";
}

function Change({ tree: t, node, blocks }: Props) {
	const [before, after] = [t.before![node]!, t.total[node]!];
	const change = after - before;
	return (
		<>
			<dt>before</dt><dd>{amountText(before, blocks)}</dd>
			<dt>after</dt><dd>{amountText(after, blocks)}</dd>
			<dt>change</dt>
			<dd>
				{changeText(change, blocks)}
				{error(t.totalError[node]!, blocks)}
				{t.significant![node] ? "" : " · within noise"}
			</dd>
		</>
	);
}

function Amounts({ tree: t, node, blocks }: Props) {
	const figures = (value: number, stderr: number, samples: number) => (
		<dd>
			{amountText(value, blocks)}{error(stderr, blocks)}
			<small>{percentText(value, t.total[0]!)} · {samples.toLocaleString("en-US")} samples</small>
		</dd>
	);
	return (
		<>
			<dt>total</dt>
			{figures(t.total[node]!, t.totalError[node]!, t.samples[node]!)}
			<dt>self</dt>
			{figures(t.self[node]!, t.selfError[node]!, t.selfSamples[node]!)}
		</>
	);
}

export function Tip(props: Props) {
	const { tree, node, x, y } = props;
	const box = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const element = box.current!;
		const around = element.parentElement!.getBoundingClientRect();
		const { width, height } = element.getBoundingClientRect();
		const left = x + 14 + width > around.width ? Math.max(4, x - width - 10) : x + 14;
		const top = y + 22 + height > around.height ? Math.max(4, y - height - 10) : y + 22;
		element.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
	});
	const where = place(tree, node);
	const module = tree.texts[tree.module[node]!]!;
	const kind = KINDS[tree.kind[node]!];
	return (
		<div class="flame-tip" ref={box} aria-hidden="true">
			<strong>{node === 0 ? "all" : tree.texts[tree.name[node]!] || "(no name)"}</strong>
			{where && <span>{where}</span>}
			{module && <span>{shortPath(module)}{kind && ` · ${kind}`}</span>}
			<dl>{tree.before ? <Change {...props} /> : <Amounts {...props} />}</dl>
		</div>
	);
}
