# SPDX-License-Identifier: Apache-2.0
# Routes as Sinatra has them: blocks that become methods.
class Router
  @routes = {}

  class << self
    attr_reader :routes

    def get(path, &block)
      name = "GET #{path}"
      define_method(name, &block)
      routes[path] = name
    end
  end

  def call(path, **params)
    @kept = keep("r" * 499) #@ router
    send(self.class.routes.fetch(path), **params)
  end
end
