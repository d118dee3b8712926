package zoo_test

import (
	"math/big"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"strings"
	"time"

	. "github.com/taredb/tare/sizegen/internal/zoo" // cannot be the same package: habitat imports it
	"github.com/taredb/tare/sizegen/internal/zoo/habitat"
	"github.com/taredb/tare/sizegen/internal/zoo/parts"
)

// A builder creates random values. Two builders with one seed create equal values that share no memory.
type builder struct {
	*rand.Rand
	depth int

	// text, if set, is the text of which all strings are substrings.
	text string

	// tiny permits values that the tiny allocator packs together: pointer-free and smaller than 16 bytes.
	tiny bool
}

func newBuilder(seed uint64) *builder { return &builder{Rand: rand.New(rand.NewPCG(seed, 1))} }

// str returns a string on the heap: a separate one, or a substring of the text.
func (b *builder) str() string {
	n := 16 + b.IntN(60)
	if b.tiny {
		n = b.IntN(40)
	}
	if b.text != "" {
		i := b.IntN(len(b.text) - n)
		return b.text[i : i+n]
	}
	out := make([]byte, n)
	for i := range out {
		out[i] = 'a' + byte(b.IntN(26))
	}
	return string(out)
}

// when returns a time in a zone that the process shares or in a new one, whose name is never detached.
func (b *builder) when() time.Time {
	t := time.Unix(b.Int64N(1<<32), 0)
	switch b.IntN(3) {
	case 0:
		return t.UTC()
	case 1:
		return t.In(b.zone())
	}
	return t
}

func (b *builder) zone() *time.Location {
	return time.FixedZone(strings.Clone(b.str()), 1800+b.IntN(1000))
}

func (b *builder) maybe() bool { return b.IntN(3) > 0 }

func many[T any](b *builder, most int, one func() T) []T {
	var out []T
	switch n := b.IntN(most + 1); b.IntN(3) {
	case 0:
		out = make([]T, 0, n+b.IntN(4)) // with or without spare capacity
		fallthrough
	default:
		for range n {
			out = append(out, one())
		}
	}
	if len(out) > 2 && b.IntN(4) == 0 {
		out = out[:len(out)-1] // elements past the length are alive too
	}
	return out
}

func table[K comparable, V any](b *builder, most int, key func() K, elem func() V) map[K]V {
	if b.IntN(8) == 0 {
		return nil
	}
	m := make(map[K]V)
	var out []K
	for range b.IntN(most + 1) {
		k := key()
		m[k] = elem()
		if b.IntN(4) == 0 {
			out = append(out, k)
		}
	}
	for _, k := range out {
		delete(m, k)
	}
	return m
}

func (b *builder) pair() Pair { return Pair{b.str(), b.str()} }
func (b *builder) pairPtr() *Pair {
	if b.maybe() {
		p := b.pair()
		return &p
	}
	return nil
}
func (b *builder) point() Point { return Point{int32(b.IntN(9)), int32(b.IntN(9))} }
func (b *builder) points() []Point {
	if b.tiny {
		return many(b, 9, b.point)
	}
	return make([]Point, 2+b.IntN(9))
}

func (b *builder) shape() Shape {
	b.depth++
	defer func() { b.depth-- }()
	kinds := 13
	if b.depth > 5 {
		kinds = 8
	}
	switch b.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return &Circle{R: b.Float64(), Name: b.str()}
	case 2:
		return Square{b.Float64(), b.str()}
	case 3:
		return &Square{b.Float64(), b.str()}
	case 4:
		return Polygon(append(many(b, 5, b.str), b.str()))
	case 5:
		return Wrap{b.pairPtr()}
	case 6:
		return Title(b.str())
	case 7:
		if b.tiny {
			return Unit(b.IntN(1000))
		}
		return Nothing{}
	case 8:
		p := Polygon(many(b, 5, b.str))
		return &p
	case 9:
		return Registry(table(b, 12, b.str, b.str))
	case 10:
		return Duo{b.shape(), b.shape()}
	case 11:
		return (*Circle)(nil)
	default:
		return &Group{many(b, 4, b.shape)}
	}
}

func (b *builder) any() any {
	b.depth++
	defer func() { b.depth-- }()
	kinds := 8
	if b.depth > 5 {
		kinds = 4
	}
	switch b.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return b.str()
	case 2:
		return b.Uint32()&1 == 0
	case 3:
		if b.tiny {
			return int64(b.IntN(600))
		}
		return ""
	case 4:
		return append(many(b, 5, b.str), b.str())
	case 5:
		return append(many(b, 3, b.any), b.any())
	case 6:
		return table(b, 10, b.str, b.any)
	default:
		return make([]byte, 16+b.IntN(40))
	}
}

func (b *builder) animal() Animal {
	dog := func() *habitat.Dog { return &habitat.Dog{Name: b.str()} }
	switch b.IntN(9) {
	case 0:
		return nil
	case 7:
		return habitat.Bees(many(b, 5, b.str))
	case 8:
		return habitat.Ants(many(b, 3, func() []string { return many(b, 3, b.str) }))
	case 1:
		return &habitat.Dog{Name: b.str(), Pack: many(b, 3, dog)}
	case 2:
		return habitat.Bird{Song: b.str(), Nest: b.str()}
	case 3:
		return &habitat.Bird{Song: b.str(), Nest: b.str()}
	case 4:
		return habitat.Herd(table(b, 9, b.str, dog))
	case 5:
		return habitat.Name(b.str())
	default:
		if b.tiny {
			return habitat.Snake(b.IntN(500))
		}
		return habitat.Snake(b.IntN(200)) // one of the runtime's small values
	}
}

func (b *builder) tree(up *Tree, depth int) *Tree {
	t := &Tree{Up: up}
	if depth > 0 {
		t.Kids = table(b, 4, b.str, func() *Tree { return b.tree(t, depth-1) })
	}
	return t
}

func (b *builder) nest(depth int) Nest {
	if depth == 0 {
		return nil
	}
	return many(b, 3, func() Nest { return b.nest(depth - 1) })
}

func (b *builder) part() *parts.Part {
	s := b.str()
	return parts.New(b.str(), make([]byte, 16+b.IntN(99)), table(b, 20, b.str, b.str), &s)
}

func (b *builder) cage(depth int) *Cage {
	c := &Cage{
		Name: b.str(),
		Raw:  make([]byte, 16, 16+b.IntN(3000)), Words: many(b, 8, b.str),
		Rows: many(b, 4, func() []string { return many(b, 4, b.str) }),
		Line: b.points(), Pair: b.pairPtr(), Values: many(b, 30, b.pair),
		Nested: b.nest(3),

		Counts: table(b, 3000, b.str, b.Int), Index: table(b, 100, b.Int, b.pairPtr),
		Names:  table(b, 30, b.str, b.str),
		Deep:   table(b, 4, b.str, func() map[string][]string { return table(b, 4, b.str, func() []string { return many(b, 3, b.str) }) }),
		ByPair: table(b, 20, b.pair, b.pair),
		Big: table(b, 12, func() [20]uint64 { return [20]uint64{b.Uint64()} },
			func() [20]string { return [20]string{3: b.str()} }),
		Sparse: table(b, 30, b.Float64, b.str), Set: table(b, 50, b.point, func() struct{} { return struct{}{} }),
		ByAny:   table(b, 9, func() any { return b.str() }, b.str),
		ByShape: table(b, 9, func() Shape { return Square{b.Float64(), b.str()} }, b.Int),

		Shape: b.shape(), Shapes: many(b, 6, b.shape), Any: b.any(), Anys: many(b, 6, b.any),
		Animal: b.animal(), Animals: many(b, 6, b.animal),

		Part: *b.part(), Parts: many(b, 3, b.part),
		When: b.when(), Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
		Less: func(a, b *Cage) bool { return a.Number < b.Number },
	}
	for i := range c.Grid {
		for j := range c.Grid[i] {
			c.Grid[i][j] = b.str()
		}
	}
	if depth > 0 {
		c.Next = b.cage(depth - 1)
		c.Peers = []*Cage{c, c.Next, nil} // a cycle, and one shared
	}
	c.Hide(Label(b.str()), b.str(), b.str())
	points := b.points()
	if b.maybe() {
		s := b.str()
		p := &s
		c.Ptr = &p
		c.Stack = NewStack(many(b, 4, b.str), p)
		point := new(Point)
		if !b.tiny {
			point = &points[1] // into the middle of an object that is also reached as a whole
		}
		stack := NewStack(points, point)
		c.Points = &stack
		c.Keeper = NewKeeper(c.Words[:len(c.Words)/2], c.Raw[3:9])
		c.Inner = c.Pair
		c.Either = c.Pair
		c.Ticks = make(chan int32, b.IntN(40))
	} else {
		c.Either = Label(b.str())
	}
	c.Tree = b.tree(nil, 3)
	for range 1 + b.IntN(5) {
		c.Foreign.Push(b.str(), b.pair())
	}
	c.Amount.SetBit(new(big.Int), 128+b.IntN(2000), 1)
	c.Large = new(big.Int).SetBit(new(big.Int), 128+b.IntN(2000), 1)
	host := strings.ToLower(b.str())
	c.URL = &url.URL{
		Scheme: b.str(), User: url.UserPassword(b.str(), b.str()), Host: host, Path: host[len(host)/2:],
		Opaque: b.str(), Fragment: b.str(), RawQuery: b.str(), RawPath: b.str(), RawFragment: b.str(),
	}
	for range b.IntN(5) {
		c.List.PushBack(b.any())
	}
	if b.maybe() {
		c.Current.Store(b.pairPtr())
		c.Zones = []time.Location{*b.zone()}
	}
	for range b.IntN(100) {
		c.Synced.Store(b.str(), b.any())
	}
	c.Table = &processTable
	c.Registry = processRegistry
	return c
}

var (
	processTable    = Table{Rows: []string{"one", "two"}}
	processRegistry = map[string]*Cage{"none": nil}
)
