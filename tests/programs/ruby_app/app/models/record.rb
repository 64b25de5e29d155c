# SPDX-License-Identifier: Apache-2.0
# What ActiveRecord does for its models, in small.
class Record
  class << self
    def attribute(*names)
      names.each do |name|
        define_method("#{name}_text") do
          keep("a" * 1999) #@ defined
        end
      end
    end

    def find(id)
      new(id).tap { |record| record.load }
    end
  end

  attr_reader :id

  def initialize(id)
    @id = id
  end

  def method_missing(name, *)
    return super unless name.end_with?("_cached")

    keep("m" * 2999) #@ missing
  end

  def respond_to_missing?(name, _all) = name.end_with?("_cached")
end
