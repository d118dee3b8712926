package zoo

import (
	"container/list"
	"math/big"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/sizegen/internal/zoo/parts"
)

//sizegen:types list.Element.Value = basic

// A Cage has one field of each kind that a generated walk has to get right.
//
//sizegen:root
type Cage struct {
	Name    string
	label   Label
	Number  int64
	Raw     []byte
	Words   []string
	Grid    [2][3]string
	Rows    [][]string
	Next    *Cage
	Peers   []*Cage
	flat    Point
	Line    []Point
	Pair    *Pair
	Values  []Pair
	Ptr     **string
	Tree    *Tree
	Nested  Nest
	private hidden
	*Keeper
	Embedded

	Counts  map[string]int
	Index   map[int]*Pair
	Names   map[string]string
	Deep    map[string]map[string][]string
	ByPair  map[Pair]Pair
	Big     map[[20]uint64][20]string
	Sparse  map[float64]string
	Set     map[Point]struct{}
	ByAny   map[any]string
	ByShape map[Shape]int

	Shape   Shape
	Shapes  []Shape
	Any     any
	Anys    []any
	Animal  Animal
	Animals []Animal

	Stack   Stack[string]
	Points  *Stack[Point]
	Foreign parts.Stack[Pair]
	Part    parts.Part
	Parts   []*parts.Part

	Amount  big.Int
	Large   *big.Int
	When    time.Time
	Zones   []time.Location
	Addr    netip.Addr
	URL     *url.URL
	List    list.List
	Current atomic.Pointer[Pair]
	Synced  sync.Map
	mu      sync.Mutex

	Ticks chan int32

	//sizegen:size 0 a top-level function captures nothing
	Less func(a, b *Cage) bool

	Table *Table
	//sizegen:shared one per process
	Registry map[string]*Cage

	//sizegen:types *Pair Label
	Either any
}

type (
	// A Label is a defined string.
	Label string

	// A Point has no pointers.
	Point struct{ X, Y int32 }

	// A Pair has two strings and nothing else: a box of one is replaced when detached.
	Pair struct{ Left, Right string }

	// A Keeper is embedded by pointer.
	Keeper struct {
		Keys  []string
		Boss  *Keeper
		notes []byte
	}

	// An Embedded is embedded by value.
	Embedded struct{ Inner *Pair }

	hidden struct {
		text string
		self *hidden
	}

	// A Nest is a slice of itself.
	Nest []Nest

	// A Tree is a map that contains itself by pointers.
	Tree struct {
		Kids map[string]*Tree
		Up   *Tree
	}

	// A Stack is generic.
	Stack[T any] struct {
		items []T
		top   *T
	}

	// A Table belongs to the process.
	//
	//sizegen:shared one table per process
	Table struct{ Rows []string }
)

// A Shape is an interface with implementations here: by pointer, by value, and both ways.
type Shape interface{ Area() float64 }

type (
	// Circle has a pointer receiver.
	Circle struct {
		R    float64
		Name string
	}
	// Square has a value receiver, and strings in its box.
	Square struct {
		Side float64
		Name string
	}
	// Polygon is a slice with a value receiver.
	Polygon []string
	// Unit is a number with a value receiver.
	Unit int32
	// Wrap is of pointer shape: no box.
	Wrap struct{ In *Pair }
	// Group holds shapes.
	Group struct{ Of []Shape }
	// Title is a string with a value receiver.
	Title string
	// Registry is a map with a value receiver.
	Registry map[string]string
	// Nothing takes no memory.
	Nothing struct{}
	// Duo holds interfaces in a box.
	Duo struct{ A, B Shape }
)

func (*Circle) Area() float64  { return 1 }
func (Square) Area() float64   { return 2 }
func (Polygon) Area() float64  { return 3 }
func (Unit) Area() float64     { return 4 }
func (Wrap) Area() float64     { return 5 }
func (*Group) Area() float64   { return 6 }
func (Title) Area() float64    { return 7 }
func (Registry) Area() float64 { return 8 }
func (Nothing) Area() float64  { return 9 }
func (Duo) Area() float64      { return 10 }

// An Animal is implemented in a package that this one cannot import.
type Animal interface{ Legs() int }
