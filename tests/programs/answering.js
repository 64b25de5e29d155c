// SPDX-License-Identifier: Apache-2.0
// As answering.c, in JavaScript: fork starts another program, and there is no exec.
"use strict";
const { spawnSync } = require("child_process");
const { Worker, isMainThread, parentPort } = require("worker_threads");

let wrong = false;

function work(rounds) {
	for (let i = 0; i < rounds; i++) {
		const block = Buffer.alloc(20000 + i, i & 127);
		const made = Array.from({ length: 50 }, (_, k) => ({ number: k, text: "x".repeat(k) }));

		if (block.some((byte) => byte !== (i & 127)) || JSON.parse(JSON.stringify(made))[49].text.length !== 49)
			wrong = true;
	}
}

function load() {
	work(2);
	setTimeout(load, 3).unref();
}

if (isMainThread) {
	const worker = new Worker(__filename);
	const answer = (line) => {
		if (line === "work")
			work(200);
		else if (line === "fork" && spawnSync("/bin/sh", ["-c", "exit 7"]).status !== 7)
			wrong = true;
		console.log({ alive: "alive", work: "worked", fork: "forked" }[line]);
	};

	worker.on("message", (bad) => {
		if (bad === "ready") {
			load();
			console.log("ready");
			return;
		}
		console.log(wrong || bad ? "wrong" : "good");
		process.exit(23);
	});
	require("readline").createInterface({ input: process.stdin }).on("line", answer).on("close", () =>
		worker.postMessage("end"));
} else {
	parentPort.on("message", () => parentPort.postMessage(wrong));
	load();
	parentPort.postMessage("ready");
}
