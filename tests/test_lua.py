#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""examples/lua: an interpreter with mayfly/memprof.h, alone and recorded."""
import os

from harness import MAYFLY, Folder, Skip, case, cases, check, info, main, program, record, report, run, same

WORK = """
local kept = {}
local function fill(n)
  for i = 1, n do
    kept[i] = { i, i, i, i }
  end
end
local function churn(n)
  for i = 1, n do
    local t = { i, i }
  end
end
local function sorted(n)
  local t, last = {}, nil
  for i = 1, n do t[i] = i * 7919 % n end
  table.sort(t, function(a, b)
    last = { a, b, a, b }
    return a < b
  end)
end
local function produce(n)
  for i = 1, n do
    kept[#kept + 1] = string.rep("y", 1000) .. i
    coroutine.yield(i)
  end
end
local function consume(n, how)
  if how == "wrap" then
    local next = coroutine.wrap(produce)
    for i = 1, n do next(n) end
  else
    local co = coroutine.create(produce)
    for i = 1, n do assert(coroutine.resume(co, n)) end
  end
end
local function inner()
  kept[#kept + 1] = string.rep("z", 3000000)
  error("wanted")
end
function main(...)
  fill(20000)
  churn(200000)
  sorted(20000)
  consume(3000, ...)
  local first = { pcall(inner) }
  local second = { pcall(coroutine.wrap(inner)) }
  print(#kept, first[1], first[2] == second[2], coroutine.isyieldable(), ...)
end
main(...)
"""

# A table is 56 bytes, its array 16 for each value, on every machine with 64 bits.
TABLE, VALUE = 56, 16


def interpreter():
    if not os.path.exists(program("mayfly_lua")):
        raise Skip("liblua5.4-dev is not installed")
    return program("mayfly_lua")


def script(here, text):
    with open(here / "work.lua", "w") as file:
        file.write(text)
    return here / "work.lua"


def rows_of(trace, by="function", *options):
    return report(trace, "--metric", "allocated", "--by", by, "--all", *options)["rows"]


def near(got, expected, what):
    """At 1 of 64 words: thousands of samples, so five standard errors are below 10 %."""
    check(abs(got / expected - 1) < 0.1, what, got, expected)


@cases(["wrap", "resume"])
def functions_and_lines(how):
    lua = interpreter()
    with Folder() as here:
        work = script(here, WORK)
        plain = run([lua, work, how])
        same((plain.code, plain.err), (0, b""))
        done = record([lua, work, how], here / "t.mayfly", "--ocaml=0.015625")
        same((done.code, done.out), (0, plain.out), "what the script prints")
        bytes_of = {row["function"]: row["self"]["bytes"]["estimate"] for row in rows_of(here / "t.mayfly")}
        near(bytes_of["fill"], 20000 * (TABLE + 4 * VALUE) + VALUE * (2 * 32768 - 1), "fill, and kept, which doubles")
        near(bytes_of["churn"], 200000 * (TABLE + 2 * VALUE), "churn")
        # Lua itself has the line before for some: it does not note where it is for each instruction.
        lines = sorted((row["self"]["bytes"]["estimate"], row["line"]) for row in
                       rows_of(here / "t.mayfly", "line") if row["function"] == "churn")
        same(lines[-1][1], 10, "churn's line")
        stacks = [[frame["function"] for frame in row["stack"]] for row in
                  rows_of(here / "t.mayfly", "stack", "--top", "0")]
        check(["function at line 16", "sort", "sorted", "main", "main chunk"] in stacks, "Lua below C below Lua", stacks)
        producers = [stack for stack in stacks if "consume" in stack and stack[0] in ("rep", "produce")]
        check(producers and all(stack[-3:] == ["consume", "main", "main chunk"] for stack in producers),
              "a coroutine's stack goes on with the one that resumed it", stacks)
        check(all("?" not in stack for stack in stacks), stacks)


@case
def what_is_kept():
    lua = interpreter()
    with Folder() as here:
        work = script(here, "local kept = {}\nfor i = 1, 30000 do kept[i] = { i, i } end\nos.exit(true, false)\n")
        same(record([lua, work], here / "t.mayfly", "--ocaml=0.015625").code, 0)
        rows = report(here / "t.mayfly", "--metric", "leaked")["rows"]
        near({row["function"]: row["self"]["bytes"]["estimate"] for row in rows}["main chunk"],
             30000 * (TABLE + 2 * VALUE) + 32768 * VALUE, "left")


@case
def all_is_freed_at_the_end():
    """lua_close frees all: nothing of the script's heap is left."""
    lua = interpreter()
    with Folder() as here:
        work = script(here, "local kept = {}\nfor i = 1, 30000 do kept[i] = { i, i } end\n")
        same(record([lua, work], here / "t.mayfly", "--ocaml=0.015625").code, 0)
        about = info(here / "t.mayfly")
        check(about["samples"] > 1000 and about["samples"] - about["frees"] < 10, about)


@case
def an_error_ends_the_script():
    lua = interpreter()
    with Folder() as here:
        work = script(here, "local t = {}\nfor i = 1, 1000 do t[i] = {} end\nerror('no good')\n")
        plain = run([lua, work])
        done = record([lua, work], here / "t.mayfly", "--ocaml=0.015625")
        same((plain.code, done.code), (1, 1))
        check(b"no good" in plain.err and b"no good" in done.err, plain, done)
        check(info(here / "t.mayfly")["samples"] > 10, "what was before the error is in the trace")


@case
def lua_moves_its_stacks():
    """While it does, nothing of them is read: from Lua 5.4.5 on there are offsets in place of pointers then."""
    lua = interpreter()
    with Folder() as here:
        work = script(here, """
local function deep(n) local t = { n }; if n == 0 then return 0 end; return 1 + deep(n - 1) end
for i = 1, 20 do coroutine.wrap(deep)(500); collectgarbage() end
print(deep(1000))
""")
        done = record([lua, work], here / "t.mayfly", "--ocaml=1")
        same((done.code, done.out), (0, b"1000\n"), done)
        functions = {row["function"] for row in rows_of(here / "t.mayfly")}
        check("deep" in functions, functions)


@case
def a_script_is_stopped():
    """By a signal that no process can catch: the trace has what was before."""
    lua = interpreter()
    with Folder() as here:
        work = script(here, "local kept = {}\nfor i = 1, 30000 do kept[i] = { i, i } end\n"
                            "os.execute('kill -KILL $PPID')\n")
        record([lua, work], here / "t.mayfly", "--ocaml=0.015625")
        rows = report(here / "t.mayfly", "--metric", "live")["rows"]
        near({row["function"]: row["self"]["bytes"]["estimate"] for row in rows}["main chunk"],
             30000 * (TABLE + 2 * VALUE) + 32768 * VALUE, "live when it was stopped")


@case
def text_of_the_report():
    lua = interpreter()
    with Folder() as here:
        work = script(here, WORK)
        record([lua, work, "wrap"], here / "t.mayfly", "--ocaml=0.015625")
        text = run([MAYFLY, "report", here / "t.mayfly"]).out.decode()
        check("lua's heap 1 in" in text and "OCaml" not in text and "JIT" not in text, text)


if __name__ == "__main__":
    main()
