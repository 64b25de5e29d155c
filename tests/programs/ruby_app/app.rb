# SPDX-License-Identifier: Apache-2.0
# A small web application as Rails and Sinatra have them, without a server. The lines that keep strings
# are named (#@); argument words choose what else is done. With `truth`, it prints what Ruby itself says
# each line holds: {"file:line": bytes outside of the heap's slots}.
require "json"
require "objspace"
require "socket"

KEPT = []

def keep(string)
  KEPT << string
  string
end

ObjectSpace.trace_object_allocations_start if ARGV.include?("truth")
require_relative "lib/router"
require_relative "app/models/record"
require_relative "app/models/order"
require_relative "app/controllers/orders"

SLOT = GC::INTERNAL_CONSTANTS[:RVALUE_SIZE]

def truth
  held = Hash.new(0)
  ObjectSpace.each_object(String) do |string|
    file = ObjectSpace.allocation_sourcefile(string) or next
    bytes = ObjectSpace.memsize_of(string) - SLOT
    held["#{file}:#{ObjectSpace.allocation_sourceline(string)}"] += bytes if bytes.positive?
  end
  held
end

def in_threads
  fill = ->(_) { keep("t" * 12999) } #@ threads
  4.times.map { Thread.new { 5.times(&fill) } }.each(&:join)
end

def in_fibers
  fibers = Array.new(3) do
    Fiber.new do
      3.times do
        keep("f" * 13999) #@ fibers
        Fiber.yield
      end
    end
  end
  3.times { fibers.each(&:resume) }
  each = Enumerator.new do |to|
    to << keep("n" * 14999) #@ enumerator
  end
  each.next
end

def in_ractors
  made = Array.new(3) do
    Ractor.new do
      Array.new(4) { "R" * 15999 } #@ ractors
    end
  end
  made.each { |ractor| KEPT.concat(ractor.take) }
end

def in_child
  pid = fork do
    keep("k" * 16999) #@ child
  end
  Process.wait(pid)
end

# Memory of libc, which is asked for while Ruby's lock is released, and objects that move meanwhile.
def unlocked
  asking = Thread.new do
    100.times { Addrinfo.getaddrinfo("localhost", 80) } #@ unlocked
  end
  GC.compact while asking.alive?
end

def deep(depth)
  depth.zero? ? keep("d" * 17999) : deep(depth - 1) #@ deep
end

# Objects move, and code that was read before lies elsewhere.
def compacting
  GC.auto_compact = ARGV.include?("auto")
  30.times do |i|
    eval("def made_#{i} = keep('q' * 18999)", binding, __FILE__, __LINE__ + 1)
    send("made_#{i}") #@ compacting
    Array.new(3000) { |k| "garbage #{k}" * 4 }
    GC.compact
    Orders.new.call("/orders") if i == 29
  end
end

# Code that dies and leaves its memory to other code.
def replacing
  2000.times do |i|
    eval("def self.replaced = 'z' * #{30_000 + i}; replaced", binding, "replaced_#{i % 2}.rb", 7)
  end
end

Orders.new.call("/orders")
4.times { |i| Orders.new.call("/orders/:id", id: i) }
Order.count
in_threads if ARGV.include?("threads")
in_fibers if ARGV.include?("fibers")
in_ractors if ARGV.include?("ractors")
unlocked if ARGV.include?("unlocked")
in_child if ARGV.include?("child")
deep(3000) if ARGV.include?("deep")
compacting if ARGV.include?("compacting")
replacing if ARGV.include?("replacing")
raise "unexpected" if KEPT.any? { |string| string.count(string[0]) != string.size }

puts JSON.generate(ARGV.include?("truth") ? truth : { kept: KEPT.sum(&:bytesize) })
