// SPDX-License-Identifier: Apache-2.0
// node viewer/build.mjs READER OUT
//
// Makes the page from src/ and the reader's WebAssembly:
//
//	OUT/viewer.html		the page, all in one file
//	OUT/viewer_page.S	the same, for the mayfly program
//	OUT/viewer.mjs, OUT/zstd.wasm	what tests/ask_reader.mjs runs in node
//	OUT/viewer.d		on which files the page depends
//
// Without the libraries of package-lock.json (viewer/install brings them) the page is that of the release, in
// prebuilt/, where there is one; otherwise it is empty.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const MOST_BYTES = 400 * 1000; // of the page without a trace
const MARK = "<!-- data -->"; // where traces are put in: src/cli/view/viewer_page.h

const here = dirname(fileURLToPath(import.meta.url));
const [reader, out] = process.argv.slice(2).map((path) => resolve(path));
const library = (path) => join(here, "node_modules", path);
const installed = library(".installed");
const prebuilt = join(here, "prebuilt/viewer.html"); // viewer/put-page
const object = join(here, "../src/page/viewer_page.S.in");
const inputs = new Set([join(here, "build.mjs"), join(here, "index.html"), object, installed, reader]);

function fail(message) {
	console.error("viewer/build.mjs: " + message);
	process.exit(1);
}

/** A script, and the style that it imports. */
async function bundle(esbuild, entry, options = {}) {
	const result = await esbuild.build({
		entryPoints: [join(here, "src", entry)],
		absWorkingDir: here,
		outdir: out,
		bundle: true,
		minify: true,
		write: false,
		metafile: true,
		target: "es2022",
		format: "iife",
		jsx: "automatic",
		jsxImportSource: "preact",
		legalComments: "none",
		logLevel: "warning",
		loader: { ".svg": "text" },
		...options,
	});
	for (const path of Object.keys(result.metafile.inputs)) inputs.add(join(here, path));
	const text = (end) => result.outputFiles.find((file) => file.path.endsWith(end))?.text ?? "";
	return { script: text(".js"), style: text(".css") };
}

/** zstddec's WebAssembly, which its JavaScript has as base64 (src/engine/zstd.ts says why). */
function zstdCode() {
	const path = library("zstddec/dist/zstddec.mjs");
	const found = /const wasm = "([A-Za-z0-9+/=]+)"/.exec(readFileSync(path, "utf8"));
	if (!found) fail(path + ": holds no WebAssembly where it did");
	return Buffer.from(found[1], "base64");
}

function licences() {
	const texts = ["preact", "uplot", "zstddec"].map((name) =>
		`${name}\n\n${readFileSync(library(name + "/LICENSE"), "utf8").trim()}\n`);
	texts.push("musl, in wasi-libc\n\nCopyright (c) 2005-2020 Rich Felker, et al.\n" +
		"MIT licence, as that of preact above.\n");
	return texts.join("\n");
}

/** A text between script tags: nothing in it may end them or begin others. */
function inScript(text) {
	if (/<!--|<\/?script/i.test(text)) fail("a script holds what HTML would take for a tag");
	return text;
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** What browsers unpack themselves. Shorter blocks than the default's follow the code more closely. */
const gzip = (bytes) => gzipSync(bytes, { level: 9, memLevel: 7 });

/** What the page's own zstd unpacks: a tenth less than gzip. */
const zstd = (path) => execFileSync("zstd", ["--ultra", "-22", "--quiet", "--no-check", "--stdout", path]);

async function encoder(esbuild) {
	const { script } = await bundle(esbuild, "engine/unpack.ts", { format: "esm", minify: false });
	const { encodePacked } = await import(`data:text/javascript;base64,${Buffer.from(script).toString("base64")}`);
	return encodePacked;
}

async function page(esbuild) {
	const encode = await encoder(esbuild);
	const { script: begin } = await bundle(esbuild, "begin.ts");
	const { script: main, style } = await bundle(esbuild, "main.tsx", { format: "esm" });
	const { script: worker } = await bundle(esbuild, "engine/worker.ts");
	const parts = {
		style: encode(gzip(style)),
		begin: inScript(begin.trim()),
		main: encode(gzip(main)),
		worker: inScript(worker.trim()),
		reader: encode(zstd(reader)),
		readerSize: String(statSync(reader).size),
		zstd: encode(gzip(zstdCode())),
		licences: inScript(licences()),
		// No request leaves the page, except to the program that serves it.
		policy: ["default-src 'none'", `script-src ${hash(begin.trim())} blob: 'wasm-unsafe-eval'`,
			"worker-src blob:", "style-src 'unsafe-inline'", "img-src data: blob:",
			"connect-src 'self'", "base-uri 'none'", "form-action 'none'"].join("; "),
	};
	const frame = readFileSync(join(here, "index.html"), "utf8");
	const text = frame.replace(/\{(\w+)\}/g, (_, name) => parts[name] ?? fail("no part " + name));
	if (text.split(MARK).length !== 2) fail(`index.html: not one "${MARK}"`);
	return text;
}

/** The page as an object of the program. */
function assembly(text) {
	const values = {
		HASH: createHash("sha256").update(text).digest("hex"),
		PATH: join(out, "viewer.html").replace(/[\\"]/g, "\\$&"),
	};
	return readFileSync(object, "utf8").replace(/@(\w+)@/g, (_, name) => values[name]);
}

function write(name, content) {
	writeFileSync(join(out, name), content);
}

/** For ninja: the next build looks at these again, also at those that are missing. */
function writeDependencies() {
	const escaped = [...inputs].map((path) => relative(process.cwd(), path).replace(/ /g, "\\ "));
	const target = relative(process.cwd(), join(out, "viewer.html")).replace(/ /g, "\\ ");
	write("viewer.d", `${target}: ${escaped.join(" ")}\n`);
}

async function main() {
	let text = "";
	let test = "";
	let zstd = Buffer.alloc(0);
	const lock = readFileSync(join(here, "package-lock.json"));
	if (existsSync(installed) && readFileSync(installed).equals(lock)) {
		const esbuild = await import(library("esbuild/lib/main.js"));
		text = await page(esbuild);
		test = (await bundle(esbuild, "engine/wasm.ts", { format: "esm", minify: false })).script;
		zstd = zstdCode();
		const size = Buffer.byteLength(text);
		console.log(`viewer.html: ${(size / 1000).toFixed(0)} KB`);
		if (size > MOST_BYTES) fail(`viewer.html: more than ${MOST_BYTES / 1000} KB`);
	} else if (existsSync(prebuilt)) {
		text = readFileSync(prebuilt, "utf8");
		inputs.add(prebuilt);
		console.log("The page of mayfly view is that of the release: its sources have changed, but its " +
			"libraries are not installed (viewer/install brings them).");
	} else {
		console.log("The page of mayfly view is not built: its libraries are not installed " +
			"(viewer/install brings them).");
	}
	write("viewer.html", text);
	write("viewer_page.S", assembly(text));
	write("viewer.mjs", test);
	write("zstd.wasm", zstd);
	writeDependencies();
}

await main();
