// SPDX-License-Identifier: Apache-2.0
// The picture and what reacts to hands: pointer, keyboard, menu, tip, and the mirror that screen
// readers read. The canvas is as large as the window onto the picture, and stays in place while the
// picture's height scrolls by.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys, type Key } from "../keyboard.ts";
import { exactly } from "../shell/patterns.ts";
import { usePicture } from "../shell/pictures.ts";
import type { ViewProps } from "../view.ts";
import { firstCallee, nextSibling, previousSibling, type Tree } from "./arrays.ts";
import { Camera } from "./camera.ts";
import type { Matches } from "./matches.ts";
import { Menu, type Action } from "./menu.tsx";
import { Mirror, mirrorId } from "./mirror.tsx";
import { readPalette, type Palette } from "./palette.ts";
import { followPointer, type Touched } from "./pointer.ts";
import { ROW, Scene } from "./scene.ts";
import { Tip } from "./tip.tsx";

export interface StageProps extends Pick<ViewProps, "state" | "go"> {
	tree: Tree;
	loading: boolean;
	zoomed: number;
	zoom(node: number): void;
	matches: Matches | null;
	/** The match that the reader stepped to, or -1. */
	match: number;
	step(by: number): void;
	actions(node: number): Action[];
	toSearch(): void;
	onModules(modules: string[]): void;
	onPalette(palette: Palette): void;
}

interface Place {
	node: number;
	x: number;
	y: number;
}

const CONTEXT_ROWS = 3; // callers that stay above the zoomed node
const MATCH_LEAST = 120; // pixels
const MODULES = 6; // in the legend

class Parts {
	readonly scene: Scene;
	readonly camera: Camera;
	settled: () => void = () => {};

	constructor(canvas: HTMLCanvasElement, scroller: HTMLElement) {
		this.scene = new Scene(canvas);
		this.camera = new Camera(this.scene, scroller, () => this.settled());
	}

	/** Where the window stands when the node fills it. */
	topFor(node: number): number {
		const { scene } = this;
		const y = scene.rowTop(scene.tree!.depth[node]!);
		const context = CONTEXT_ROWS * ROW;
		return scene.upright ? y + ROW - scene.height + context : y - context;
	}

	fill(node: number, atOnce: boolean): void {
		const t = this.scene.tree!;
		const from = t.left[node]!;
		this.camera.go(from, from + (t.width[node]! || t.width[0]! || 1), this.topFor(node), atOnce);
	}

	/** Moves no more than it must to show the node, so many pixels wide. */
	reveal(node: number, least: number): void {
		const { scene, camera } = this;
		const t = scene.tree!;
		let { from, to, top } = camera.aim;
		const [left, wide] = [t.left[node]!, t.width[node]!];
		if ((wide / (to - from)) * scene.width < least && wide > 0) {
			const window = Math.min(to - from, (wide * scene.width) / least);
			from = left + wide / 2 - window / 2;
			to = from + window;
		} else if (left >= to || left + wide <= from) {
			const window = to - from;
			from = left + Math.min(wide, window) / 2 - window / 2;
			to = from + window;
		}
		const y = scene.rowTop(t.depth[node]!);
		top = Math.min(Math.max(top, y + 2 * ROW - scene.height), Math.max(0, y - ROW));
		camera.go(from, to, top);
	}
}

/** A node that a key leads to from this one, or -1. */
function neighbour(t: Tree, node: number, key: string, upright: boolean): number {
	switch (key) {
	case "ArrowUp":
	case "ArrowDown":
		if ((key === "ArrowUp") === upright) return firstCallee(t, node);
		return node > 0 ? t.parent[node]! : -1;
	case "ArrowLeft":
		return previousSibling(t, node);
	case "ArrowRight":
		return nextSibling(t, node);
	case "Home":
		return 0;
	}
	return -1;
}

/** The nearest caller that is wider: the one to see more. */
function wider(t: Tree, node: number): number {
	let above = node;
	while (above > 0 && t.width[above]! <= t.width[node]! * 1.0001) above = t.parent[above]!;
	return above;
}

function parseRange(text: string | undefined): [number, number] | null {
	const [from, to] = (text ?? "").split("_").map(Number);
	return from !== undefined && to !== undefined && from >= 0 && to > from ? [from, to] : null;
}

/** Calls run now and whenever what colours depend on changes. */
function onTheme(run: () => void, signal: AbortSignal): void {
	for (const media of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
		matchMedia(media).addEventListener("change", run, { signal });
	}
	const observer = new MutationObserver(run);
	observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
	signal.addEventListener("abort", () => observer.disconnect());
	run();
}

export function Stage(props: StageProps) {
	const { tree, state, zoomed, matches, match } = props;
	const { own } = state;
	const blocks = own["blocks"] === "1";
	const upright = own["root"] === "bottom";
	const scroller = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const element = useRef<HTMLDivElement>(null);
	const parts = useRef<Parts | null>(null);
	const latest = useRef(props);
	latest.current = props;
	const [selected, setSelected] = useState(-1);
	const [tip, setTip] = useState<Place | null>(null);
	const [menu, setMenu] = useState<Place | null>(null);
	const [height, setHeight] = useState(0);
	const written = useRef<string | undefined>(undefined);
	const seen = useRef<{ tree?: Tree; zoomed?: number; upright?: boolean }>({});

	useLayoutEffect(() => {
		const abort = new AbortController();
		const made = (parts.current = new Parts(canvas.current!, scroller.current!));
		const { scene, camera } = made;
		// At once: a picture that is higher than its window for a frame would scroll.
		const resize = new ResizeObserver(() => {
			scene.width = scroller.current!.clientWidth;
			scene.height = scroller.current!.clientHeight;
			setHeight(scene.pictureHeight);
			scene.invalidate();
		});
		resize.observe(scroller.current!);
		scene.width = scroller.current!.clientWidth;
		scene.height = scroller.current!.clientHeight;
		onTheme(() => {
			scene.setPalette(readPalette(scroller.current!));
			latest.current.onPalette(scene.palette!);
			scene.invalidate();
		}, abort.signal);
		const touched: Touched = {
			hover: (node, x, y) => {
				if (scene.hovered !== node) scene.invalidate();
				scene.hovered = node;
				setTip(node < 0 ? null : { node, x, y });
			},
			click: (node) => {
				scene.ring = false;
				setSelected(node);
				element.current?.focus({ preventScroll: true });
				latest.current.zoom(node);
			},
			doubleClick: (node) => focusOn(latest.current, node),
			menu: (node, x, y) => {
				setTip(null);
				setSelected(node);
				setMenu({ node, x, y });
			},
		};
		followPointer(canvas.current!, scene, camera, touched, abort.signal);
		scroller.current!.addEventListener("scroll", () => camera.scrolled(), { signal: abort.signal });
		return () => {
			abort.abort();
			resize.disconnect();
			camera.stop();
			scene.stop();
		};
	}, []);

	useLayoutEffect(() => {
		const { scene, camera } = parts.current!;
		const now = { tree, zoomed, upright };
		const before = seen.current;
		const same = before.tree === tree && before.upright === upright;
		if (before.tree !== tree) {
			camera.stop();
			scene.setTree(tree);
			setSelected(-1);
			setTip(null);
			setMenu(null);
		}
		scene.upright = upright;
		scene.blocks = blocks;
		scene.byLine = own["merge"] === "line";
		scene.zoomed = zoomed;
		setHeight(scene.pictureHeight);
		// The picture's height must be there before it can scroll.
		scroller.current!.firstElementChild!.setAttribute("style", `height: ${scene.pictureHeight}px`);
		if (same && before.zoomed === zoomed && own["range"] === written.current) {
			scene.invalidate();
			return;
		}
		seen.current = now;
		written.current = own["range"];
		const range = parseRange(own["range"]);
		const all = tree.width[0]! || 1;
		if (range) camera.go(range[0] * all, range[1] * all, parts.current!.topFor(zoomed), !same);
		else parts.current!.fill(zoomed, !same);
	}, [tree, zoomed, upright, blocks, own["merge"], own["range"]]);

	useLayoutEffect(() => {
		const { scene } = parts.current!;
		scene.matches = matches;
		scene.selected = selected;
		scene.invalidate();
	}, [matches, selected, tree]);

	useEffect(() => {
		if (match < 0) return;
		parts.current!.scene.ring = true;
		setSelected(match);
		parts.current!.reveal(match, MATCH_LEAST);
	}, [match]);

	useEffect(() => {
		const { scene } = parts.current!;
		let timer = 0;
		parts.current!.settled = () => {
			clearTimeout(timer);
			timer = window.setTimeout(() => {
				const { state: { own: now }, go } = latest.current;
				const t = scene.tree!;
				const all = t.width[0]! || 1;
				const { from, to } = scene.shown;
				const left = t.left[scene.zoomed]!;
				const off = Math.abs(from - left) + Math.abs(to - left - t.width[scene.zoomed]!);
				const text = off > (to - from) * 1e-3
					? `${(from / all).toPrecision(7)}_${(to / all).toPrecision(7)}` : undefined;
				if (text === now["range"]) return;
				written.current = text;
				go({ own: { range: text } }, true);
			}, 250);
		};
		let said = "";
		scene.onPaint = () => {
			const modules = [...scene.modules].sort((a, b) => b[1] - a[1]).slice(0, MODULES)
				.map(([text]) => scene.tree!.texts[text]!).sort();
			if (modules.join("\n") === said) return;
			said = modules.join("\n");
			latest.current.onModules(modules);
		};
		return () => clearTimeout(timer);
	}, []);

	usePicture(() => parts.current!.scene.drawn());
	const openMenu = (node: number) => {
		const { scene } = parts.current!;
		const y = scene.rowTop(tree.depth[node]!) - scene.shown.top + ROW;
		setTip(null);
		setMenu({ node, x: Math.max(0, scene.xOf(tree.left[node]!)) + 12, y });
	};
	const chosen = selected < 0 ? zoomed : selected;
	const choose = (node: number) => {
		setSelected(node);
		setTip(null);
		parts.current!.reveal(node, 6);
	};
	useKeys("Flame graph", keysOf(props, chosen, upright, { choose, openMenu, parts }).map((key) => ({
		...key,
		run: (event) => {
			if (key.run(event) === false) return false;
			parts.current!.scene.ring = true;
			parts.current!.scene.invalidate();
			// Where screen readers follow.
			const moves = !menu && key.keys[0]!.startsWith("Arrow");
			if (moves) element.current?.focus({ preventScroll: true });
			return undefined;
		},
	})));
	const closeMenu = () => {
		setMenu(null);
		element.current?.focus({ preventScroll: true });
	};
	return (
		<div class={`flame-stage${props.loading ? " flame-old" : ""}`}>
			<div class="flame-scroller" ref={scroller}>
				<div style={{ height: `${height}px` }}>
					<canvas ref={canvas} aria-hidden="true" />
				</div>
			</div>
			<div
				class="flame-tree"
				ref={element}
				role="tree"
				tabIndex={0}
				aria-label="Call tree"
				aria-activedescendant={mirrorId(chosen)}
				onFocus={() => {
					const { scene } = parts.current!;
					scene.ring = element.current!.matches(":focus-visible");
					if (scene.ring) setSelected((node) => (node < 0 ? zoomed : node));
					scene.invalidate();
				}}
				onBlur={() => {
					parts.current!.scene.ring = false;
					parts.current!.scene.invalidate();
				}}
			>
				<Mirror tree={tree} node={chosen} blocks={blocks} />
			</div>
			{tip && !menu && tip.node < tree.count &&
				<Tip tree={tree} node={tip.node} x={tip.x} y={tip.y} blocks={blocks} />}
			{menu && menu.node < tree.count && (
				<Menu
					title={menu.node ? tree.texts[tree.name[menu.node]!]! : "all"}
					actions={props.actions(menu.node)}
					x={menu.x}
					y={menu.y}
					close={closeMenu}
				/>
			)}
		</div>
	);
}

function focusOn({ tree, go }: StageProps, node: number): void {
	if (node === 0) return;
	go({
		question: { focus: [exactly(tree.texts[tree.name[node]!]!)] },
		own: { zoom: undefined, range: undefined },
	});
}

interface Means {
	choose(node: number): void;
	openMenu(node: number): void;
	parts: { current: Parts | null };
}

function keysOf(props: StageProps, node: number, upright: boolean, means: Means): Key[] {
	const { tree, zoomed, zoom, step } = props;
	const to = (keys: string[], does: string): Key => ({
		keys, does,
		run: (event) => {
			const next = neighbour(tree, node, event.key, upright);
			if (next < 0) return false;
			return means.choose(next);
		},
	});
	const closer = (factor: number) => () => {
		const { camera, scene } = means.parts.current!;
		camera.zoom(scene.width / 2, factor);
	};
	return [
		to(["ArrowUp", "ArrowDown"], "to the caller, to what it calls"),
		to(["ArrowLeft", "ArrowRight"], "to the neighbours that have the same caller"),
		to(["Home"], "to the root"),
		{ keys: ["Enter"], does: "zoom to the box; once more: what can be done with it",
		  run: () => (node === zoomed ? means.openMenu(node) : zoom(node)) },
		{ keys: ["ContextMenu", "m"], does: "what can be done with the box",
		  run: () => means.openMenu(node) },
		{ keys: ["Backspace", "Escape"], does: "zoom out to a wider caller",
		  run: () => (zoomed > 0 ? zoom(wider(tree, zoomed)) : false) },
		{ keys: ["0"], does: "all of the picture", run: () => zoom(0) },
		{ keys: ["+", "="], does: "closer", run: closer(0.6) },
		{ keys: ["-"], does: "less close", run: closer(1 / 0.6) },
		{ keys: ["f"], does: "only what passes through the box", run: () => focusOn(props, node) },
		{ keys: ["c"], does: "its callers and callees",
		  run: () => props.actions(node).find((one) => one.hint === "c")?.run() },
		{ keys: ["/"], does: "search", run: () => props.toSearch() },
		{ keys: ["n"], does: "next match", run: () => (props.matches ? step(1) : false) },
		{ keys: ["N"], does: "match before", run: () => (props.matches ? step(-1) : false) },
	];
}
