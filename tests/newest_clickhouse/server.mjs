// SPDX-License-Identifier: Apache-2.0
// node tests/newest_clickhouse/server.mjs PORT FOLDER
//
// What mayfly uses of ClickHouse's HTTP interface, in front of the newest server, which the package chdb embeds:
// statements, a table that comes with a statement as a form, and rows that are compressed. One request at a time.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { Session } from "chdb";

const [port, folder] = process.argv.slice(2);
const session = new Session(path.join(folder, "data"));

async function run(statement) {
	return Buffer.from((await session.queryAsync(statement, { format: "TabSeparated" })).bytes());
}

function file(bytes) {
	const name = path.join(folder, "rows");
	fs.writeFileSync(name, bytes);
	return name;
}

function quoted(text) {
	return `'${text.replace(/[\\']/g, "\\$&")}'`;
}

// The frames of zstd in ClickHouse's blocks, which are a file of zstd one after the other.
function frames(body) {
	const found = [];
	for (let at = 0; at < body.length;) {
		const end = at + 16 + body.readUInt32LE(at + 17);
		if (body[at + 16] !== 0x90)
			throw new Error(`method ${body[at + 16]} is not zstd`);
		found.push(body.subarray(at + 25, end));
		at = end;
	}
	return Buffer.concat(found);
}

async function insert(statement, body) {
	const table = /^INSERT INTO (\S+) FORMAT RowBinary$/.exec(statement)[1];
	await run(`INSERT INTO ${table} SELECT * FROM file(${quoted(file(frames(body)))}, RowBinary, auto, 'zstd')`);
	return Buffer.alloc(0);
}

// The table is there while the statement runs, as one of the database that unqualified names are looked up in.
async function withTable(statement, name, columns, type, body) {
	const end = `\r\n--${/boundary=(.*)/.exec(type)[1]}--\r\n`;
	const rows = body.subarray(body.indexOf("\r\n\r\n") + 4, body.length - end.length);
	await run(`CREATE TABLE ${name} (${columns}) ENGINE = Memory`);
	try {
		if (rows.length)
			await run(`INSERT INTO ${name} SELECT * FROM file(${quoted(file(rows))}, RowBinary, ${quoted(columns)})`);
		return await run(statement);
	} finally {
		await run(`DROP TABLE ${name}`);
	}
}

function answer(url, type, body) {
	const asked = new URL(url, "http://localhost").searchParams;
	const statement = asked.get("query") ?? body.toString();
	const structure = [...asked.keys()].find((key) => key.endsWith("_structure"));
	if (asked.get("decompress"))
		return insert(statement, body);
	if (structure)
		return withTable(statement, structure.replace("_structure", ""), asked.get(structure), type, body);
	return run(statement);
}

async function respond(request, response, body) {
	let status = 200, text;
	try {
		text = await answer(request.url, request.headers["content-type"], body);
	} catch (error) {
		status = 500;
		text = Buffer.from(error.message.replace(/^.*?(?=Code: )/s, ""));
	}
	response.writeHead(status, { "Content-Length": text.length });
	response.end(text);
}

let last = Promise.resolve();
http.createServer((request, response) => {
	const parts = [];
	request.on("data", (part) => parts.push(part));
	request.on("end", () => {
		last = last.then(() => respond(request, response, Buffer.concat(parts)));
	});
}).listen(Number(port), "127.0.0.1");
