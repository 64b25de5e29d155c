// SPDX-License-Identifier: Apache-2.0
// Functions f0, f1 ... call one another in all the ways that JavaScript has; the last one allocates. So
// a stack in which fN is has all of those before it, in order.
const DEPTH = 24, names = [];
let seed = 20261123;
const kept = [];
function pick(n) { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 65536) % n; }
const ways = [
  (f, n) => f(n),
  (f, n) => [n].map(f)[0],
  (f, n) => { let r; [n].forEach(x => { r = f(x); }); return r; },
  (f, n) => Reflect.apply(f, null, [n]),
  (f, n) => f.call(null, n),
  (f, n) => f.apply(null, [n]),
  (f, n) => f.bind(null, n)(),
  (f, n) => ({ get it() { return f(n); } }).it,
  (f, n) => { let r; ({ set it(v) { r = f(v); } }).it = n; return r; },
  (f, n) => new Proxy({}, { get: () => f(n) }).anything,
  (f, n) => new (class { constructor() { this.r = f(n); } })().r,
  (f, n) => new (class extends Array { constructor() { super(); this.r = f(n); } })().r,
  (f, n) => 'x'.replace(/x/, () => f(n)),
  (f, n) => JSON.stringify({ toJSON() { return f(n); } }),
  (f, n) => JSON.parse('[1]', (k, v) => k === '0' ? f(n) : v),
  (f, n) => `${{ toString() { return String(f(n)); } }}`,
  (f, n) => +{ valueOf() { return +f(n) || 0; } },
  (f, n) => (function* () { yield f(n); })().next().value,
  (f, n) => { for (const x of { [Symbol.iterator]() { return { next: () => ({ done: false, value: f(n) }), return: () => ({}) }; } }) return x; },
  (f, n) => { try { throw n; } catch (e) { return f(e); } },
  (f, n) => Array.from([n], f)[0],
  (f, n) => [2, 1].sort(() => (f(n), 0))[0],
  (f, n) => eval('f(n)'),
];
const fs = [];
for (let d = 0; d < DEPTH; d++)
  fs.push(new Function('fs', 'ways', 'pick', `return function f${d}(n) {
    return ${d + 1 < DEPTH} ? ways[pick(${ways.length})](fs[${d + 1}], n) : fs.leaf(n); }`)(fs, ways, pick));
fs.leaf = function leaf(n) { const b = Buffer.alloc(9000 + pick(3000)); kept.push(b); if (kept.length > 100) kept.shift(); return 1; };
for (let i = 0; i < 3000; i++) fs[0](i);

