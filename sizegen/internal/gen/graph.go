package gen

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"regexp"
	"slices"
)

// A graph has an edge from each function or type to those that it leads to.
type graph map[string][]string

func (g graph) add(from, to string) {
	if !slices.Contains(g[from], to) {
		g[from] = append(g[from], to)
	}
}

// components numbers the nodes: two have the same number if each leads to the other. A node on no cycle with
// another node has a unique number.
func (g graph) components() map[string]int {
	c := &components{g: g, index: make(map[string]int), low: make(map[string]int), of: make(map[string]int)}
	for n := range g {
		if c.index[n] == 0 {
			c.visit(n)
		}
	}
	return c.of
}

// components is Tarjan's algorithm.
type components struct {
	g          graph
	index, low map[string]int // from 1
	of         map[string]int
	stack      []string
	count      int
}

func (c *components) visit(n string) {
	c.index[n] = len(c.index) + 1
	c.low[n] = c.index[n]
	c.stack = append(c.stack, n)
	for _, to := range c.g[n] {
		if c.index[to] == 0 {
			c.visit(to)
			c.low[n] = min(c.low[n], c.low[to])
		} else if c.of[to] == 0 { // on the stack
			c.low[n] = min(c.low[n], c.index[to])
		}
	}
	if c.low[n] < c.index[n] {
		return
	}
	c.count++
	for {
		top := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		c.of[top] = c.count
		if top == n {
			return
		}
	}
}

// reach returns the nodes reachable from the given ones, and these, with their distance.
func (g graph) reach(from []string) map[string]int {
	depth := make(map[string]int)
	for _, n := range from {
		depth[n] = 0
	}
	for work := from; len(work) > 0; work = work[1:] {
		for _, to := range g[work[0]] {
			if _, ok := depth[to]; !ok {
				depth[to] = depth[work[0]] + 1
				work = append(work, to)
			}
		}
	}
	return depth
}

// followMark represents a call of another function in the text of a function until all calls are known.
func followMark(caller, callee, name, arg string) string {
	return fmt.Sprintf("\x01%s\x02%s\x02%s\x02%s\x03", caller, callee, name, arg)
}

var markPattern = regexp.MustCompile("\x01([^\x02]*)\x02([^\x02]*)\x02([^\x02]*)\x02([^\x03]*)\x03")

// resolveCalls generates the marked calls of o: those that may lead back to their caller are followed, so
// that their stack is bounded.
func (g *generator) resolveCalls(o *output) {
	if g.component == nil {
		g.component = g.calls.components()
	}
	for i := range o.decls {
		o.decls[i].text = markPattern.ReplaceAllStringFunc(o.decls[i].text, func(mark string) string {
			m := markPattern.FindStringSubmatch(mark)
			if g.component[m[1]] == g.component[m[2]] {
				return fmt.Sprintf("%s(w, %s, %s)", o.heapsize("Follow"), m[3], m[4])
			}
			return fmt.Sprintf("%s(w, %s)", m[3], m[4])
		})
	}
}

// A lead is a step of a walk: a field of one type that leads to another type.
type lead struct {
	from, to string // types
	key      string // the field, as named by directives
	own      bool   // a directive can be placed at the field
	at       token.Pos
	what     string
	site     site
	foreign  bool   // the other type is not of this module
	toKey    string // the other type, as named by directives
	ofType   bool   // the directive would apply to a type
}

// nodeOf returns the name of a type in the graph of walks.
func nodeOf(t types.Type) string { return types.TypeString(t, nil) }

// merge replaces the problems that one field, or one type, leads to by a single problem at that field or
// type, if they are several and a large part of all fields there: the objects behind it probably belong to
// another owner. Fields and types near the roots are merged first.
func (g *generator) merge() {
	refused := 0
	for _, p := range g.problems.list {
		if !p.Warning && p.node != "" {
			refused++
		}
	}
	if refused < mergedLeast {
		return
	}
	all := make(graph)
	for _, l := range g.leads {
		all.add(l.from, l.to)
	}
	depth := all.reach(g.rootNodes)
	var candidates []lead
	for _, l := range g.leads {
		if !l.foreign {
			continue
		}
		candidates = append(candidates, l)
		if l.toKey != "" {
			// The same for the type that it leads to.
			candidates = append(candidates, lead{from: l.to, key: l.toKey, what: l.toKey, site: l.site, ofType: true})
		}
	}
	slices.SortStableFunc(candidates, func(a, b lead) int {
		return cmp.Or(cmp.Compare(depth[a.from], depth[b.from]), cmp.Compare(a.id(), b.id()))
	})
	tried := make(map[string]bool)
	for _, c := range candidates {
		if !tried[c.id()] {
			tried[c.id()] = true
			g.mergeAt(c)
		}
	}
}

// id returns the name of the field, or the type, that a directive would apply to.
func (l lead) id() string { return cmp.Or(l.key, l.what) }

// The minimum number of problems that are merged, and the minimum part of the fields, one in so many.
const (
	mergedLeast = 3
	mergedPart  = 3
)

func (g *generator) mergeAt(c lead) {
	stated := func(l lead) bool { return l.id() == c.id() || c.ofType && l.toKey == c.key }
	without := make(graph)
	for _, l := range g.leads {
		if !stated(l) {
			without.add(l.from, l.to)
		}
	}
	if g.empties(without, stated) {
		return
	}
	kept := without.reach(g.rootNodes)
	fields := 0
	for node, n := range g.fields {
		if _, ok := kept[node]; !ok {
			fields += n
		}
	}
	var behind, others []Problem
	for _, p := range g.problems.list {
		switch _, ok := kept[p.node]; {
		case p.node == "" || ok || !p.Warning && p.Try == "":
			others = append(others, p)
		case !p.Warning:
			behind = append(behind, p)
		}
	}
	if len(behind) < mergedLeast || mergedPart*len(behind) < fields || len(behind) < fields && g.ofRoot(c) {
		return
	}
	p := Problem{
		Pos: g.position(c.site.at), What: c.site.what, key: c.key, node: c.from,
		Why: fmt.Sprintf("%d of the %d fields with pointers behind it cannot be seen, such as %s: %s", len(behind), fields, behind[0].key, behind[0].Why),
	}
	const say = "shared it belongs to another owner"
	if p.Try, p.named = "//sizegen:"+say, false; !c.own {
		p.What += ": " + c.what
		p.Try, p.named = namedStatement(c.key, say), true
	}
	g.problems.list = append(others, p)
	// Fields behind it no longer count for other candidates.
	g.leads = slices.DeleteFunc(g.leads, stated)
}

// ofRoot reports whether a directive would apply to what a root holds itself: that part of it is counted that can be seen.
func (g *generator) ofRoot(c lead) bool {
	return slices.Contains(g.rootNodes, c.from) || c.ofType && slices.ContainsFunc(g.leads, func(l lead) bool {
		return l.to == c.from && slices.Contains(g.rootNodes, l.from)
	})
}

// empties reports whether a directive for the stated leads would leave nothing of a root but itself.
func (g *generator) empties(without graph, stated func(lead) bool) bool {
	return slices.ContainsFunc(g.rootNodes, func(root string) bool {
		kept := without.reach([]string{root})
		left := 0
		for node := range kept {
			left += g.fields[node]
		}
		gone := make(map[string]bool)
		for _, l := range g.leads {
			if _, ok := kept[l.from]; ok && stated(l) {
				gone[l.from+" "+l.id()] = true
			}
		}
		return len(gone) > 0 && left <= len(gone)
	})
}
