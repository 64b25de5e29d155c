# SPDX-License-Identifier: Apache-2.0
"""The inputs of the programs in macro.py: generated, the same bytes on every machine."""

import os


class Random:
    """A small generator of our own: Python does not promise that its random numbers stay."""

    def __init__(self, seed):
        self.state = seed

    def next(self, below):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        return (self.state >> 33) % below


CPP_HEAD = """\
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct tag { static constexpr int value = N; };
template <int N, class... T> struct chain : chain<N - 1, tag<N>, T...> {
	std::tuple<T...> items;
	std::map<std::string, std::vector<tag<N>>> index;
	int depth() const { return N + chain<N - 1, tag<N>, T...>::depth(); }
};
template <class... T> struct chain<0, T...> {
	int depth() const { return sizeof...(T); }
};
"""

CPP_UNIT = """
struct unit_{n} {{
	std::unordered_map<std::string, std::shared_ptr<std::vector<tag<{n}>>>> table;
	std::set<std::pair<tag<{n}> *, std::string>> order;
	std::variant<std::string, tag<{n}>, std::function<{type}(unit_{n} &, {type})>> choice;
	chain<{depth}> links;
	{type} run(std::vector<{type}> v)
	{{
		std::map<{type}, std::function<{type}({type})>> steps;
		for ({type} i = 0; i < {type}({count}); i++)
			steps[i] = [i, this](auto x) {{ return {type}(x * i + {n} + table.size()); }};
		std::sort(v.begin(), v.end(), [](auto a, auto b) {{ return a * {odd} < b * {odd}; }});
		{type} sum = std::accumulate(v.begin(), v.end(), {type}(0), [&](auto a, auto b) {{
			return {type}(a + steps.at(b)(b)); }});
		return {type}(sum + links.depth() + table[std::to_string(sum)]->size());
	}}
}};
long call_{n}(std::vector<{type}> v) {{ return long(unit_{n}().run(std::move(v))); }}
"""


def cpp(out, units, first=0):
    types = ["int", "long", "double", "short", "float", "unsigned"]
    out.write(CPP_HEAD)
    for n in range(first, first + units):
        out.write(CPP_UNIT.format(n=n, type=types[n % len(types)], depth=8 + n % 5,
                                  count=10 + n % 7, odd=2 * n + 1))


PYTHON = """\
import ast
import json

rows = [{"key": i, "name": "row %d" % i, "values": [str(i)] * 9} for i in range(ROWS)]
text = json.dumps(rows)
again = json.loads(text)
assert again == rows
source = "".join(
    "def f%d(a, b=%d):\\n"
    "    x = [a * i + b for i in range(%d) if i %% 3]\\n"
    "    return {str(k): (v, a) for k, v in enumerate(x)} if x else {'none': f'{a}-{b}'}\\n"
    % (i, i, i) for i in range(FUNCTIONS))
tree = ast.parse(source)
names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})
print(len(text), len(ast.dump(tree)), len(names), len(compile(tree, "big", "exec").co_consts))
"""


def python(out, rows, functions):
    out.write(PYTHON.replace("ROWS", str(rows)).replace("FUNCTIONS", str(functions)))


def json_rows(out, megabytes):
    random = Random(1)
    out.write("[")
    written, n = 1, 0
    while written < megabytes * 1000000:
        words = " ".join("w%x" % random.next(5000) for _ in range(20 + random.next(20)))
        row = '%s{"id":%d,"group":"g%d","score":%d.%d,"tags":["t%d","t%d"],"text":"%s"}\n' % (
            "," if n else "", n, random.next(997), random.next(1000), random.next(100),
            random.next(50), random.next(50), words)
        out.write(row)
        written += len(row)
        n += 1
    out.write("]\n")


JQ_FILTER = "group_by(.group) | map({group: .[0].group, n: length, score: (map(.score) | add)})"

SQL = """\
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, grp INTEGER, price REAL, note TEXT);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, amount INTEGER, day TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ROWS)
INSERT INTO item SELECT i, printf('item-%06d', (i * 7919) % ROWS), i % 97, i * 0.37,
	hex(i * 2654435761) || substr('abcdefghijklmnopqrstuvwxyz', 1 + i % 20, 6) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2 * ROWS)
INSERT INTO sale SELECT i, 1 + (i * 104729) % ROWS, i % 13, date('2020-01-01', (i % 900) || ' days')
	FROM n;
COMMIT;
CREATE INDEX item_name ON item(name);
CREATE INDEX sale_item ON sale(item, day);
SELECT grp, count(*), round(sum(price), 2), max(length(note)) FROM item GROUP BY grp ORDER BY 3;
SELECT i.grp, s.day, sum(s.amount * i.price) AS total FROM sale s JOIN item i ON i.id = s.item
	GROUP BY i.grp, s.day ORDER BY total DESC LIMIT 20;
SELECT name, group_concat(note, '/') FROM item WHERE name LIKE 'item-0%' GROUP BY substr(name, 1, 9)
	ORDER BY length(group_concat(note)) DESC LIMIT 5;
UPDATE item SET note = upper(note) || lower(name) WHERE grp % 3 = 0;
DELETE FROM sale WHERE amount = 7;
SELECT count(*), sum(length(note)) FROM item;
SELECT json_group_array(json_object('id', id, 'name', name, 'note', note)) ->> '$[77].note' FROM item
	WHERE id < ROWS / 4;
"""


def sql(out, rows):
    out.write(SQL.replace("ROWS", str(rows)))


def make(folder, name, writer, *arguments):
    """The path of the input, written first unless an earlier run has left it."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        with open(path + ".part", "w") as out:
            writer(out, *arguments)
        os.rename(path + ".part", path)
    return path


def smt(out, jobs, machines):
    """A job shop with just enough time: each machine works on one job at a time."""
    random = Random(3)
    length = {(j, m): 1 + random.next(30) for j in range(jobs) for m in range(machines)}
    limit = sum(length.values()) * 13 // machines // 10
    out.write("(set-logic QF_LIA)\n")
    for j, m in length:
        out.write("(declare-fun s%d_%d () Int)\n(assert (>= s%d_%d 0))\n" % (j, m, j, m))
    for j in range(jobs):
        order = list(range(machines))
        for i in range(machines - 1, 0, -1):
            k = random.next(i + 1)
            order[i], order[k] = order[k], order[i]
        for a, b in zip(order, order[1:]):
            out.write("(assert (>= s%d_%d (+ s%d_%d %d)))\n" % (j, b, j, a, length[j, a]))
        out.write("(assert (<= (+ s%d_%d %d) %d))\n" % (j, order[-1], length[j, order[-1]], limit))
    for m in range(machines):
        for a in range(jobs):
            for b in range(a):
                out.write("(assert (or (>= s%d_%d (+ s%d_%d %d)) (>= s%d_%d (+ s%d_%d %d))))\n" % (
                    a, m, b, m, length[b, m], b, m, a, m, length[a, m]))
    out.write("(check-sat)\n")


def git_history(out, commits, files):
    """For git fast-import: each commit changes some lines of some files, some it moves."""
    random = Random(4)
    names = ["part%d/file%d.txt" % (i % 7, i) for i in range(files)]
    text = [["line %d of %d: %x" % (k, i, random.next(1 << 30)) for k in range(150 + random.next(400))]
            for i in range(files)]

    def data(content):
        out.write("data %d\n%s\n" % (len(content), content))
    for n in range(commits):
        out.write("commit refs/heads/main\ncommitter A <a@example.org> %d +0000\n" % (1500000000 + n))
        data("change %d" % n)
        for i in range(files) if n == 0 else sorted({random.next(files) for _ in range(6)}):
            lines = text[i]
            for _ in range(1 + random.next(20)):
                at = random.next(len(lines))
                if random.next(3):
                    lines[at] = "changed in %d: %x" % (n, random.next(1 << 30))
                else:
                    lines.insert(at, "new in %d: %x" % (n, random.next(1 << 30)))
            if n and random.next(40) == 0:
                moved = "part%d/moved%d-%d.txt" % (random.next(7), n, i)
                out.write("R %s %s\n" % (names[i], moved))
                names[i] = moved
            out.write("M 644 inline %s\n" % names[i])
            data("\n".join(lines) + "\n")
