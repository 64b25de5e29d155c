# SPDX-License-Identifier: Apache-2.0
require "erb"

class Orders < Router
  VIEWS = File.expand_path("../views", __dir__)
  @routes = {}

  get "/orders" do
    @order = Order.find(1)
    @order.price
    @order.check
    render "orders"
  end

  get "/orders/:id" do |id:|
    @order = Order.find(id)
    keep("g" * 10999) #@ route
    @order.title_text + @order.note_text + @order.total_cached
  end

  def render(view)
    template = ERB.new(File.read("#{VIEWS}/#{view}.html.erb"), trim_mode: "-")
    template.filename = "#{VIEWS}/#{view}.html.erb"
    template.result(binding)
  end
end
