// Package agents classifies user agents: bots, fetchers of previews, systems, devices and
// browsers. Rules, click budgets and statistics ask the same [Classifier].
//
// Its words are data. bots.txt holds marks of bots from the public lists
// crawler-user-agents and isbot, with their licenses; `make agents` brings them up to
// date. names.txt holds the names of systems, browsers and well-known bots, and is
// written by hand. Both become one automaton, which reads an agent once.
//
// It knows no rules, and it does not say who asks for a page: software that poses as a
// browser is taken for one.
package agents
