# SPDX-License-Identifier: Apache-2.0
module Priced
  def price
    keep("p" * 3999) #@ module
  end
end

Line = Struct.new(:name, :count) do
  def label
    keep("l" * 4999) #@ struct
  end
end

class Order < Record
  include Priced
  attribute :title, :note

  LIMIT = 3

  def load
    @lines = Array.new(LIMIT) { |i| Line.new(keep("o" * 5999), i) } #@ load
    @lines.each do |line|
      2.times { keep("b" * 6999) } #@ block
      line.label
    end
  ensure
    keep("e" * 7999) #@ ensure
  end

  def each_line(&) = @lines.each(&)

  def check
    raise ArgumentError, "none"
  rescue ArgumentError
    keep("c" * 8999) #@ rescue
  end

  def self.count
    keep("s" * 9999) #@ singleton
  end
end
