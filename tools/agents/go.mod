// The reader of the lists of bots has a module of its own, so that the product does not
// depend on it.
module waypost/tools/agents

go 1.26.0
