package habitat

import "github.com/taredb/tare/sizegen/internal/zoo"

var (
	_ zoo.Animal = (*Dog)(nil)
	_ zoo.Animal = Bird{}
	_ zoo.Animal = Herd(nil)
	_ zoo.Animal = Snake(0)
	_ zoo.Animal = Name("")
)

type (
	// Dog implements Animal by pointer.
	Dog struct {
		Name string
		Pack []*Dog
	}
	// Bird implements it by value.
	Bird struct{ Song, Nest string }
	// Herd is of pointer shape.
	Herd map[string]*Dog
	// Snake is a number.
	Snake int64
	// Name is a string.
	Name string
)

// Legs returns 4.
func (*Dog) Legs() int { return 4 }

// Legs returns 2.
func (Bird) Legs() int { return 2 }

// Legs returns 4 for each.
func (h Herd) Legs() int { return 4 * len(h) }

// Legs returns 0.
func (Snake) Legs() int { return 0 }

// Legs returns 0.
func (Name) Legs() int { return 0 }

// A swarm is generic, and created by generic functions.
type swarm[T any] struct {
	of    []T
	queen T
}

func (swarm[T]) Legs() int { return 6 }

func newSwarm[T any](of []T) swarm[T] {
	if len(of) == 0 {
		return swarm[T]{}
	}
	return swarm[T]{of, of[0]}
}

// Bees returns an animal that is a box.
func Bees(names []string) zoo.Animal { return newSwarm(names) }

// Ants returns an animal that is an object.
func Ants(names [][]string) zoo.Animal {
	s := newSwarm(names)
	return &s
}
