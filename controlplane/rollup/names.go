package rollup

import (
	"cmp"
	"slices"
)

// names is clicks by name, each once, in no order. Few, as nearly all links have, are looked
// through; an index finds many.
type names struct {
	list  []Named
	index map[string]int // of the list; nil while there are few
}

const fewNames = 16

// find gives the place of a name; -1 if it is not there.
func (n *names) find(name string) int {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range n.list {
		if n.list[i].Name == name {
			return i
		}
	}
	return -1
}

func (n *names) add(name string, c Count) {
	if i := n.find(name); i >= 0 {
		n.list[i].Add(c)
		return
	}
	n.append(Named{name, c})
}

// append adds one that is not there.
func (n *names) append(x Named) {
	n.list = append(n.list, x)
	switch {
	case n.index != nil:
		n.index[x.Name] = len(n.list) - 1
	case len(n.list) > fewNames:
		n.index = make(map[string]int, 2*len(n.list))
		for i := range n.list {
			n.index[n.list[i].Name] = i
		}
	}
}

// get gives the clicks of a name; zero if it is not there.
func (n *names) get(name string) Count {
	if i := n.find(name); i >= 0 {
		return n.list[i].Count
	}
	return Count{}
}

// keep sets the clicks of a name, which is gone without any.
func (n *names) keep(name string, c Count) {
	i := n.find(name)
	if i < 0 {
		return
	}
	if c.Clicks > 0 {
		n.list[i].Count = c
		return
	}
	last := len(n.list) - 1
	if n.list[i] = n.list[last]; n.index != nil {
		n.index[n.list[i].Name] = i
		delete(n.index, name)
	}
	n.list[last] = Named{}
	n.list = n.list[:last]
}

// most gives all of them, those with the most clicks first.
func (n *names) most() []Named {
	list := slices.Clone(n.list)
	slices.SortFunc(list, func(x, y Named) int { return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Name, y.Name)) })
	return list
}
